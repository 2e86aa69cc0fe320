"""Searching a line for a pattern that a user wrote, a bounded time long: some patterns would take hours on one line.

CPython looks for signals while it matches, so a timer of this process's own computing time breaks a search off. For
the main thread alone. Must not know whose lines these are.
"""

import re
import signal

MATCH_S = 0.2
"""The most computing time for one pattern on one line."""


class _TooLongError(Exception):
    """Raised by the timer within a search."""


class BoundedSearch:
    """Searches that end in time. limit_s: computing time of each."""

    def __init__(self, limit_s: float = MATCH_S) -> None:
        self._limit_s = limit_s
        self._armed = False
        signal.signal(signal.SIGVTALRM, self._break_off)

    def found(self, pattern: re.Pattern[str], text: str) -> bool | None:
        """Tell whether a text has what a pattern looks for; None where that took too long."""
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_VIRTUAL, self._limit_s)
            found = pattern.search(text) is not None
            self._armed = False
        except _TooLongError:
            return None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        return found

    def _break_off(self, *_: object) -> None:
        """Raise within the search; a signal that comes just after it changes nothing."""
        if self._armed:
            self._armed = False
            raise _TooLongError
