"""A screen with a live line: on a terminal it is written over, elsewhere lines, at most one a second and fewer later.

Shows what it is told; must not know what a run is.
"""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from argosy.cli.pace import LABEL
from argosy.cli.summary import Line
from argosy.cli.words import console as made_console
from argosy.contracts.plain import plain_text

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


class LiveScreen:
    """A console with live lines for work and for data.

    Use it in a `with` block, so that the terminal is left in order.
    """

    def __init__(self, console: Console | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self.console = console or made_console(WIDTH)
        self.status = StatusLine(self.console, now_s)
        self.data_status = StatusLine(self.console, now_s, patient=True)
        self.now_s = now_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.status.close()
        self.data_status.close()

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
