"""What is said while planning takes long."""

from typing import Any

import pytest

from argosy.cli import planning
from argosy.cli.planning import PATIENCE_S, PLAIN_EVERY_S, Waiting


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stop the clock that planning reads; the test moves it."""
    now = [0.0]
    monkeypatch.setattr(planning.time, "monotonic", lambda: now[0])
    return now


class TestWaiting:
    def test_silent_when_quick(self, clock: list[float], capsys: Any) -> None:
        """Nothing is said of planning that is over at once."""
        with Waiting() as waiting:
            waiting.tell(1, 3)
            clock[0] = PATIENCE_S
            waiting.tell(3, 3)
        assert capsys.readouterr().err == ""

    def test_plain(self, clock: list[float], capsys: Any) -> None:
        """Without a terminal a line is written now and then."""
        with Waiting() as waiting:
            for done, now_s in ((1, PATIENCE_S), (2, PATIENCE_S + 1), (3, PATIENCE_S + PLAIN_EVERY_S)):
                clock[0] = now_s
                waiting.tell(done, 4)
        assert capsys.readouterr().err == "planning ... 1 of 4\nplanning ... 3 of 4\n"

    def test_terminal(self, clock: list[float], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a terminal one line is written over, and gone at the end."""
        monkeypatch.setattr(planning.sys.stderr, "isatty", lambda: True, raising=False)
        with Waiting() as waiting:
            clock[0] = PATIENCE_S
            waiting.tell(1, 4)
        told = capsys.readouterr().err
        assert "\n" not in told
        assert told.endswith(planning.CLEAR_LINE)
