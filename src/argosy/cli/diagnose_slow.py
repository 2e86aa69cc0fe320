"""Breaks off a search for a pattern that would take hours on one line, and names the pattern.

CPython searches without letting other threads run, but looks for signals meanwhile, so a timer of this process's
computing time is what can end a search. For the main thread alone; elsewhere nothing is watched. Must not know what
patterns mean.
"""

import signal
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Protocol, Self

from argosy.contracts.errors import BadInputError
from argosy.health.book import Book
from argosy.health.packaged import load_book

LOOK_EVERY_S = 1.0
"""Computing time between two looks; one search that both see is broken off."""


class Named(Protocol):
    """A signature, as far as it matters here."""

    @property
    def name(self) -> str:
        """Its name, for the error."""


class Searching(Protocol):
    """Whatever searches for patterns, such as a scanner. Both as a scanner has them."""

    @property
    def trying(self) -> Named | None:
        """Whose pattern is being searched for."""

    @property
    def tried(self) -> int:
        """How many searches were begun."""


class Examples:
    """Is told whose example is searched while patterns are read; nothing between two."""

    def __init__(self) -> None:
        self.trying: Named | None = None
        self.tried = 0

    def __call__(self, name: str) -> None:
        """Note whose is next."""
        self.tried += 1
        self.trying = SimpleNamespace(name=name) if name else None


class SlowSearches:
    """Watches whatever searches. log: what is searched now, for the error."""

    def __init__(self, scanner: Searching, every_s: float = LOOK_EVERY_S, log: str = "") -> None:
        self.log = log
        self._scanner, self._every_s = scanner, every_s
        self._tried = -1
        self._watches = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._watches:
            self._before = signal.signal(signal.SIGVTALRM, self._look)
            signal.setitimer(signal.ITIMER_VIRTUAL, self._every_s, self._every_s)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._watches:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(signal.SIGVTALRM, self._before)

    def _look(self, *_: object) -> None:
        trying = self._scanner.trying
        if trying is not None and self._scanner.tried == self._tried:
            raise BadInputError(
                f"signature {trying.name}: its pattern takes more than {self._every_s:g} s on one line of {self.log}; "
                "a repeat within a repeat, such as (a+)+, does that: write it as one repeat"
            )
        self._tried = self._scanner.tried


def watched_book(users: Mapping[str, str]) -> Book:
    """Load the knowledge with a user's files of patterns; raises BadInputError for one that is wrong, or too slow."""
    examples = Examples()
    with SlowSearches(examples, log="its example"):
        return load_book(users, examples)
