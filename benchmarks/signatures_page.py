"""Writes docs/diagnose-signatures.md anew from what diagnosis knows."""

from pathlib import Path

from argosy.health.book_page import page
from argosy.health.packaged import load_book
from command import start


def main() -> None:
    """Write the page."""
    path = Path(__file__).parents[1] / "docs" / "diagnose-signatures.md"
    path.write_text(page(load_book()), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    start(main)
