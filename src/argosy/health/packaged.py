"""The knowledge that comes with Argosy, read from the files beside this module.

The one module of this room that reads files, and only those. Must not know what is in them.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files

from argosy.health.book import Book
from argosy.health.book_files import read_book


@cache
def own_texts() -> Mapping[str, str]:
    """Give the files' texts by name, in the order of their names."""
    folder = files("argosy.health") / "data"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def load_book(users: Mapping[str, str] | None = None, trying: Callable[[str], None] | None = None) -> Book:
    """Load the knowledge, with a user's files of patterns (name -> text) before our own.

    trying: as `read_book` has it. Raises BadInputError for a user's file that is wrong, with the place.
    """
    if not users:
        return _own_book()
    return read_book(own_texts(), users) if trying is None else read_book(own_texts(), users, trying)


@cache
def _own_book() -> Book:
    return read_book(own_texts())
