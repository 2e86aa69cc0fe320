"""What is said while planning takes long."""

import io
import threading
from typing import Any

import pytest

from argosy.cli import waiting
from argosy.cli.waiting import CLEAR_LINE, PATIENCE_S, PLAIN_EVERY_S, Waiting


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stop the clock that planning reads; the test moves it."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    return now


class Heard(io.StringIO):
    """A stream that says when a line has been written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.something = threading.Event()

    def flush(self) -> None:
        """Come after every line."""
        self.something.set()


class TestWaiting:
    def test_silent_when_quick(self, clock: list[float], capsys: Any) -> None:
        """Nothing is said of planning that is over at once."""
        with Waiting() as told:
            told.tell(1, 3)
            clock[0] = PATIENCE_S
            told.tell(3, 3)
        assert capsys.readouterr().err == ""

    def test_plain(self, clock: list[float], capsys: Any) -> None:
        """Without a terminal a line is written now and then."""
        with Waiting() as told:
            for done, now_s in ((1, PATIENCE_S), (2, PATIENCE_S + 1), (3, PATIENCE_S + PLAIN_EVERY_S)):
                clock[0] = now_s
                told.tell(done, 4)
        assert capsys.readouterr().err == "planning ... 1 of 4\nplanning ... 3 of 4\n"

    def test_terminal(self, clock: list[float], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a terminal one line is written over, and gone at the end."""
        monkeypatch.setattr(waiting.sys.stderr, "isatty", lambda: True, raising=False)
        with Waiting() as told:
            clock[0] = PATIENCE_S
            told.tell(1, 4)
        said = capsys.readouterr().err
        assert "\n" not in said
        assert said.endswith(CLEAR_LINE)

    def test_one_long_step(self, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
        """What tells nothing of how far it is, as compiling does, is not silent either."""
        monkeypatch.setattr(waiting, "TICK_S", 0.001)
        heard = Heard()
        monkeypatch.setattr(waiting.sys, "stderr", heard)
        with Waiting("compiling"):
            clock[0] = PATIENCE_S
            assert heard.something.wait(10)
        assert heard.getvalue() == "compiling ...\n"
