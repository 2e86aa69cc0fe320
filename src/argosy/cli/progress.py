"""A run on the screen: a live line on a terminal, plain lines elsewhere, at most one a second and fewer later.

Shows what it is told; the words for plans are those of `argosy plan`.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.cli.options import print_plans
from argosy.cli.summary import Line, mfu_of, percent
from argosy.contracts.messages import Note, Ready, Saved, StepDone, Upward
from argosy.contracts.plan import Plan
from argosy.plan.explain import rate_text
from argosy.train.data.prepare import TokenSetInfo

WIDTH = 110
LABEL = 8
# Plain lines: the pause between two grows with the time since the first, so that a long log stays readable.
PAUSE_S, PAUSE_SHARE = 1.0, 1 / 60


class StatusLine:
    """One line that is written over on a terminal; elsewhere lines, with a pause between them.

    patient: elsewhere the first line waits a pause too, so that short work is not worth one.
    """

    def __init__(self, console: Console, now_s: Callable[[], float] = time.monotonic, *, patient: bool = False) -> None:
        self._console, self._now_s, self._patient = console, now_s, patient
        self._live: Live | None = None
        self._first_s: float | None = None
        self._last_s = float("-inf")

    def show(self, text: str, *, final: bool = False) -> None:
        """Show a text in place of the one before. final: it stays, and is shown however soon it comes."""
        if self._console.is_terminal:
            self._live = self._live or self._started()
            self._live.update(Text(text), refresh=True)
            if final:
                self.close()
            return
        now_s = self._now_s()
        if self._first_s is None:
            self._first_s = now_s
            self._last_s = now_s if self._patient else self._last_s
        if final or now_s - self._last_s >= max(PAUSE_S, (now_s - self._first_s) * PAUSE_SHARE):
            self._console.print(text, soft_wrap=True, markup=False)
            self._last_s = now_s

    def close(self) -> None:
        """Leave the last text where it stands."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _started(self) -> Live:
        live = Live(console=self._console, auto_refresh=False)
        live.start()
        return live


class Screen:
    """Shows a run to a person. Use it in a `with` block, so that the terminal is left in order."""

    def __init__(self, console: Console | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self.console = console or plain_console()
        self.status = StatusLine(self.console, now_s)
        self.data_status = StatusLine(self.console, now_s, patient=True)
        self._plan: Plan | None = None
        self._steps = 0
        self._walls_s: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.status.close()
        self.data_status.close()

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Show the options and the chosen plan."""
        self.expect(choice.plan, inputs.job.train.steps)
        print_plans(self.console, inputs.job, inputs.fleet, choice.plans)
        self.console.print()

    def expect(self, plan: Plan, steps: int) -> None:
        """Know what the steps to come belong to."""
        self._plan, self._steps = plan, steps

    def preparing(self, what: str, share: float) -> None:
        """Show how far the data is."""
        self.data_status.show(f"{'data':{LABEL}}{what} {share:.0%}".replace("%", " %"))

    def prepared(self, info: TokenSetInfo) -> None:
        """Show what the data is."""
        self.data_status.show(data_text(info), final=True)
        self.starting()

    def starting(self) -> None:
        """Say that ranks start, where the line is written over by the first step."""
        if self._plan is not None and self.console.is_terminal:
            self.status.show(f"{'start':{LABEL}}{self._plan.world_size} ranks")

    def heard(self, message: Upward) -> None:
        """Show steps, checkpoints and notes; failures are told at the end."""
        match message:
            case Ready(step=step) if step and not self._walls_s:
                self.say("resume", f"from step {step}")
            case StepDone():
                self._walls_s = [*self._walls_s[-19:], message.wall_s]
                self.status.show(self.step_text(message), final=message.step == self._steps)
            case Saved():
                self.say("saved", f"step {message.step} in {message.path}, {message.wall_s:.1f} s")
            case Note() if message.level == "warning":
                self.say("warning", message.text)

    def step_text(self, done: StepDone) -> str:
        """Write one step: number, loss, throughput, MFU, time left."""
        mark = "" if done.virtual_s is None else "~"
        tokens_per_second = done.tokens / max(done.wall_s if done.virtual_s is None else done.virtual_s, 1e-9)
        mfu = mfu_of(self._plan.prediction if self._plan else None, tokens_per_second)
        left_s = (self._steps - done.step) * sum(self._walls_s) / len(self._walls_s)
        width = len(str(self._steps))
        parts = [
            f"{'step':{LABEL}}{done.step:>{width}}/{self._steps}",
            f"loss {done.loss:.3f}",
            f"tokens/s {mark}{rate_text(tokens_per_second)}",
            *([f"MFU {mark}{percent(mfu)}"] if mfu is not None else []),
            f"eta {clock_text(left_s)}",
        ]
        return "   ".join(parts)

    def say(self, label: str, text: str) -> None:
        """Print a labelled line above the live one."""
        self.console.print(f"{label:{LABEL}}{text}", soft_wrap=True, markup=False)

    def figures(self, lines: Sequence[Line]) -> None:
        """Print predicted beside measured."""
        table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("")
        for title in ("predicted", "measured", ""):
            table.add_column(title, justify="right")
        for line in lines:
            table.add_row(line.what, line.predicted, line.measured, line.difference)
        self.console.print()
        self.console.print(table)
        self.console.print()


def plain_console() -> Console:
    """Make a console of the terminal's width, WIDTH columns where there is none."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=WIDTH)


def data_text(info: TokenSetInfo, source: str = "") -> str:
    """Write what a token set is: source, size, tokenizer."""
    meta = info.meta
    tokenizer = f"tokenizer {meta.tokenizer}"
    if meta.tokenizer.startswith("train:"):
        tokenizer = f"tokenizer of {meta.vocab_size:,} trained in {meta.tokenizer_s:.1f} s"
    text = f"{source}{meta.files:,} files, {meta.text_bytes / 1e6:,.1f} MB, {meta.tokens:,} tokens, {tokenizer}"
    return f"{'data':{LABEL}}{text}{' (from the cache)' if info.reused else ''}"


def clock_text(seconds: float) -> str:
    """Write a time as h:mm:ss or m:ss.

    >>> clock_text(3725), clock_text(62)
    ('1:02:05', '1:02')
    """
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
