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
from argosy.cli.pace import LABEL, Pace
from argosy.cli.summary import Line
from argosy.cli.words import console as made_console
from argosy.cli.words import counted, plain_text
from argosy.contracts.messages import Note, Ready, Saved, StepDone, Upward
from argosy.train.data.prepare import TokenSetInfo

WIDTH = 110
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
        self.console = console or made_console(WIDTH)
        self.status = StatusLine(self.console, now_s)
        self.data_status = StatusLine(self.console, now_s, patient=True)
        self._now_s = now_s
        self._ranks = 0
        self._pace: Pace | None = None
        self._resumed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.status.close()
        self.data_status.close()

    def planned(self, inputs: Inputs, choice: Choice) -> None:
        """Show the options and the chosen plan."""
        self.expect(inputs, choice)
        for note in choice.notes:
            self.say("note", note)
        print_plans(self.console, inputs, choice.plans)
        self.console.print()

    def expect(self, inputs: Inputs, choice: Choice) -> None:
        """Know what the steps to come belong to."""
        self._ranks = choice.plan.world_size
        self._pace = Pace(inputs, choice)

    def preparing(self, what: str, share: float) -> None:
        """Show how far the data is."""
        self.data_status.show(f"{'data':{LABEL}}{what} {share:.0%}".replace("%", " %"))

    def prepared(self, info: TokenSetInfo) -> None:
        """Show what the data is."""
        self.data_status.show(data_text(info), final=True)
        self.starting()

    def starting(self) -> None:
        """Say that ranks start; on a terminal the first step is written over it."""
        text = f"{'start':{LABEL}}{counted(self._ranks, 'rank')}, which load torch"
        if self.console.is_terminal:
            self.status.show(text)
        else:
            self.console.print(text)

    def heard(self, message: Upward) -> None:
        """Show steps, checkpoints and notes; failures are told at the end."""
        match message:
            case Ready(step=step) if step and not self._resumed:  # every rank says so
                self._resumed = True
                self.say("resume", f"from step {step}")
            case StepDone() if self._pace is not None:
                text = self._pace.text(message, self._now_s())
                self.status.show(text, final=message.step == self._pace.steps)
            case Saved():
                self.say("saved", f"step {message.step} in {message.path}, {message.wall_s:.1f} s")
            case Note() if message.level == "warning":
                self.say("warning", message.text)

    def say(self, label: str, text: str) -> None:
        """Print a labelled line above the live one."""
        self.console.print(f"{label:{LABEL}}{plain_text(text)}", soft_wrap=True, markup=False)

    def figures(self, lines: Sequence[Line], told_by: str = "predicted") -> None:
        """Print predicted beside measured. told_by: title of the predictions."""
        table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("")
        for title in (told_by, "measured", ""):
            table.add_column(title, justify="right")
        for line in lines:
            table.add_row(line.what, line.predicted, line.measured, line.difference)
        self.console.print()
        self.console.print(table)
        self.console.print()


def data_text(info: TokenSetInfo, source: str = "") -> str:
    """Write what a token set is: source, size, tokenizer."""
    meta = info.meta
    tokenizer = f"tokenizer {meta.tokenizer}"
    if meta.tokenizer.startswith("train:"):
        tokenizer = f"tokenizer of {meta.vocab_size:,} trained"
        tokenizer += " before" if info.reused else f" in {meta.tokenizer_s:.1f} s"
    text = (
        f"{source}{counted(meta.files, 'file')}, {meta.text_bytes / 1e6:,.1f} MB, {meta.tokens:,} tokens, {tokenizer}"
    )
    return f"{'data':{LABEL}}{text}{' (from the cache)' if info.reused else ''}"
