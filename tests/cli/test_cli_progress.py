"""A run on the screen."""

import io

import pytest
from rich.console import Console

from argosy.cli.choosing import choose
from argosy.cli.live_screen import StatusLine
from argosy.cli.pace import clock_text
from argosy.cli.progress import Screen
from argosy.contracts.messages import Note, Ready, Saved
from support.runs import Workspace, step


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now_s


def plain() -> tuple[Console, io.StringIO]:
    """Make a console that is no terminal, and what it writes to."""
    out = io.StringIO()
    return Console(file=out, width=110, highlight=False), out


class TestPlainLines:
    def test_at_most_one_a_second(self) -> None:
        """Texts that come too soon are passed over; a final one never is."""
        console, out = plain()
        clock = Clock()
        line = StatusLine(console, clock)
        for second in (0.0, 0.4, 0.9, 1.0, 1.5):
            clock.now_s = 100 + second
            line.show(f"at {second}")
        line.show("end", final=True)
        assert out.getvalue().split("\n") == ["at 0.0", "at 1.0", "end", ""]

    def test_rarer_later(self) -> None:
        """After an hour a line a minute is enough."""
        console, out = plain()
        clock = Clock()
        line = StatusLine(console, clock)
        line.show("first")
        for second in range(3600, 3720, 5):
            clock.now_s = 100.0 + second
            line.show(str(second))
        assert len(out.getvalue().splitlines()) == 3

    def test_patient_lines_wait(self) -> None:
        """Short work is not worth a line."""
        console, out = plain()
        line = StatusLine(console, Clock(), patient=True)
        line.show("10 %")
        assert out.getvalue() == ""


class TestTerminal:
    def test_the_line_is_written_over(self) -> None:
        """On a terminal every text is shown, in place of the one before, and the last stays."""
        out = io.StringIO()
        line = StatusLine(Console(file=out, force_terminal=True, width=80))
        line.show("one")
        line.show("two", final=True)
        assert "one" in out.getvalue()
        assert out.getvalue().rstrip("\x1b[?25h\n").endswith("two")


class TestScreen:
    def screen(self, workspace: Workspace) -> tuple[Screen, io.StringIO]:
        """Make a screen that has shown a plan."""
        console, out = plain()
        screen = Screen(console, Clock())
        inputs = workspace.inputs()
        screen.planned(inputs, choose(inputs))
        return screen, out

    def test_shows_the_plan_first(self, workspace: Workspace) -> None:
        """Options and the chosen split come before anything runs."""
        _, out = self.screen(workspace)
        assert "fastest" in out.getvalue()
        assert "tiny" in out.getvalue()

    def test_a_step_has_loss_speed_and_time_left(self, workspace: Workspace) -> None:
        """A step's line marks what is emulated and says when the job will be done."""
        screen, out = self.screen(workspace)
        screen.heard(step(2, 2.5, wall_s=30.0, virtual_s=0.5))
        last = out.getvalue().splitlines()[-1]
        assert last.startswith("step    2/4   loss 2.500   tokens/s ~2,000   MFU ~")
        assert last.endswith("eta 1:00")

    def test_time_left_counts_what_lies_between_steps(self, workspace: Workspace) -> None:
        """With a minute for each checkpoint, steps of a second once promised an end in seconds; pauses count."""
        console, out = plain()
        clock = Clock()
        screen = Screen(console, clock)
        inputs = workspace.inputs("train.steps=12")
        screen.planned(inputs, choose(inputs))
        for number in (1, 2):
            clock.now_s += 61.0
            screen.heard(step(number, wall_s=1.0))
        assert out.getvalue().splitlines()[-1].endswith("eta 10:10")

    def test_ranks_resume_once(self, workspace: Workspace) -> None:
        """Every rank says where it goes on; it is told once."""
        screen, out = self.screen(workspace)
        for rank in range(5):
            screen.heard(Ready(step=6, pid=1, rank=rank))
        assert out.getvalue().count("from step 6") == 1

    def test_real_steps_are_unmarked(self, workspace: Workspace) -> None:
        """Without an emulated clock nothing is marked."""
        screen, out = self.screen(workspace)
        screen.heard(step(4, virtual_s=None, wall_s=0.5))
        assert "~" not in out.getvalue().splitlines()[-1]

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (Saved(step=2, path="ck/step-00000002", wall_s=0.21), "saved   step 2 in ck/step-00000002, 0.2 s"),
            (Ready(step=7, pid=1), "resume  from step 7"),
            (Note(text="[bold] a node is lost", level="warning"), "warning [bold] a node is lost"),
        ],
    )
    def test_what_else_is_shown(self, message: object, text: str, workspace: Workspace) -> None:
        """Checkpoints, resuming and warnings are lines of their own."""
        screen, out = self.screen(workspace)
        screen.heard(message)
        assert text in out.getvalue()

    @pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05"), (-3, "0:00")])
    def test_clock(self, seconds: float, text: str) -> None:
        """Times are minutes and seconds, with hours where there are any."""
        assert clock_text(seconds) == text
