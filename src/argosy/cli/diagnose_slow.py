"""Breaks off a search for a pattern that would take hours on one line, and names the pattern.

CPython searches without letting other threads run, but looks for signals meanwhile, so a timer of this process's
computing time is what can end a search. For the main thread alone; elsewhere nothing is watched. Must not know what
patterns mean.
"""

import signal
import threading
from typing import Self

from argosy.contracts.errors import BadInputError
from argosy.health.scanner import Scanner

LOOK_EVERY_S = 1.0
"""Computing time between two looks; one search that both see is broken off."""


class SlowSearches:
    """Watches a scanner while it searches. log: the log that is searched now, for the error."""

    def __init__(self, scanner: Scanner, every_s: float = LOOK_EVERY_S) -> None:
        self.log = ""
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
