"""What tests of diagnosis share: the book, a scanner for it, and judging lines as one log."""

from collections.abc import Callable

import pytest

from argosy.contracts.incident import Incident
from argosy.health.book import Book
from argosy.health.finding import Finding
from argosy.health.intake import take_in
from argosy.health.judge import judge
from argosy.health.packaged import load_book
from argosy.health.scanner import Scanner


@pytest.fixture(scope="session")
def book() -> Book:
    """Give what comes with Argosy."""
    return load_book()


@pytest.fixture(scope="session")
def whole_scanner(book: Book) -> Scanner:
    """Give a scanner for all of it."""
    return Scanner(book.signatures)


@pytest.fixture(scope="session")
def judged(book: Book, whole_scanner: Scanner) -> Callable[..., tuple[Incident, ...]]:
    """Judge lines as one log, together with findings."""

    def from_lines(*lines: str, findings: tuple[Finding, ...] = ()) -> tuple[Incident, ...]:
        text = "\n".join(lines) + "\n"
        return judge(take_in([("job.log", text.encode())], whole_scanner).sightings, findings, book)

    return from_lines
