"""Searches that a user's pattern would keep going for hours."""

import re
import signal
import threading

import pytest

from argosy.cli.diagnose_slow import SlowSearches
from argosy.contracts.errors import BadInputError
from argosy.health.scanner import Scanner
from argosy.health.signature import Signature

EVERY_S = 0.05


def scanner(pattern: str) -> Scanner:
    """Make a scanner of one signature."""
    return Scanner(
        [Signature(name="mine.slow", meaning="x", role="cause", layer="user", literals=("fault",), pattern=pattern)]
    )


class TestSlowSearches:
    def test_the_signature_and_the_log_are_named(self) -> None:
        """A repeat within a repeat ends with an error that says whose pattern it is, and in which log."""
        slow = scanner("fault (a+)+$")
        searches = SlowSearches(slow, EVERY_S)
        searches.log = "rank_0.log"
        told = r"signature mine\.slow: its pattern .* one line of rank_0\.log"
        with pytest.raises(BadInputError, match=told), searches:
            slow.match(0, f"fault {'a' * 60}b")

    def test_long_work_between_searches_is_let_be(self) -> None:
        """What takes long outside of the scanner, such as unpacking, is no slow pattern."""
        quick = scanner("fault a")
        with SlowSearches(quick, EVERY_S):
            assert quick.match(0, "fault a") == {}
            for _ in range(3):
                re.search("(a+)+$", "a" * 20 + "b")

    def test_the_signal_is_given_back(self) -> None:
        """Afterwards the signal does what it did before, and no timer runs."""
        before = signal.getsignal(signal.SIGVTALRM)
        with SlowSearches(scanner("fault"), EVERY_S):
            assert signal.getsignal(signal.SIGVTALRM) != before
        assert signal.getsignal(signal.SIGVTALRM) == before
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)

    def test_other_threads_search_unwatched(self) -> None:
        """Signals are the main thread's, so elsewhere nothing is set."""
        told: list[object] = []

        def search() -> None:
            with SlowSearches(scanner("fault"), EVERY_S):
                told.append(signal.getitimer(signal.ITIMER_VIRTUAL))

        thread = threading.Thread(target=search)
        thread.start()
        thread.join()
        assert told == [(0.0, 0.0)]
