"""Reports on their way to the server: numbered, kept until they are acknowledged, bounded.

What ranks report stays in their folders' files until there is room; an answer to a request for a log is dropped when
there is none, for it will be asked again. One thread alone calls it.
"""

import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from argosy.agent.folder import AttemptFolder, write_whole
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.launching import read_upward
from argosy.contracts.talk import AnyReport, LogPart, NodeNoted, OrderRefused, RankSaid

REPORTS_MAX = 2000
TALK_REPORT_BYTES = 4 << 20
READ_BYTES = 1 << 20
ORDERS_KEPT = 512
_USUAL_BYTES = 300


@dataclass(slots=True, kw_only=True)
class _Source:
    """One file of reports of one generation. read: how far."""

    path: Path
    read: int


@dataclass(slots=True)
class Outgoing:
    """What waits to be acknowledged."""

    _waiting: deque[AnyReport] = field(default_factory=deque)
    _sources: dict[tuple[str, int], _Source] = field(default_factory=dict)
    _answered: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    _number: int = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def first(self, count: int) -> tuple[AnyReport, ...]:
        """Give the oldest that wait, at most so many and so many bytes."""
        taken: list[AnyReport] = []
        room = TALK_REPORT_BYTES
        for report in self._waiting:
            room -= len(report.data) if isinstance(report, LogPart) else _USUAL_BYTES
            if len(taken) >= count or (taken and room < 0):
                break
            taken.append(report)
        return tuple(taken)

    def acknowledge(self, number: int) -> None:
        """Let go of reports up to a number, and note how far the files are sent."""
        moved: dict[tuple[str, int], int] = {}
        while self._waiting and self._waiting[0].number <= number:
            report = self._waiting.popleft()
            if isinstance(report, RankSaid):
                moved[report.attempt, report.generation] = report.position
        for key, position in moved.items():
            if (source := self._sources.get(key)) is not None:
                with contextlib.suppress(OSError):
                    write_whole(source.path.with_name("sent"), str(position).encode())

    def refused(self, order: str, attempt: str, text: str) -> bool:
        """Report that an order was not obeyed, once for each order; tells whether it was the first time."""
        new = self._is_new(f"refused {order}")
        if new:
            self._put(OrderRefused(number=self._number + 1, order=order, attempt=attempt, text=text))
        return new

    def noted(self, text: str, level: str = "info") -> None:
        """Report something for people to read."""
        self._put(NodeNoted(number=self._number + 1, text=text, level=level))

    def log_part(self, order: str, read: Callable[[int], LogPart]) -> None:
        """Answer a request for a log, once for each request."""
        if len(self._waiting) < REPORTS_MAX and self._is_new(f"read {order}"):
            self._put(read(self._number + 1))

    def take(self, attempt: str, generation: int, folder: AttemptFolder) -> None:
        """Read what ranks reported since, as far as there is room."""
        if len(self._waiting) >= REPORTS_MAX:
            return
        source = self._source(attempt, generation, folder)
        try:
            with source.path.open("rb") as file:
                file.seek(source.read)
                data = file.read(READ_BYTES)
        except OSError:
            return
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n") or len(self._waiting) >= REPORTS_MAX:
                return
            source.read += len(line)
            try:
                message = read_upward(line)
            except InfrastructureError as error:
                self.noted(f"a report of {attempt} can't be read: {error}", "warning")
                continue
            self._put(
                RankSaid(
                    number=self._number + 1,
                    attempt=attempt,
                    generation=generation,
                    position=source.read,
                    message=message,
                )
            )

    def _source(self, attempt: str, generation: int, folder: AttemptFolder) -> _Source:
        key = (attempt, generation)
        if key not in self._sources:
            sent = _read_number(folder.reports.with_name("sent"))
            self._sources[key] = _Source(path=folder.reports, read=sent)
        return self._sources[key]

    def _put(self, report: AnyReport) -> None:
        self._number = report.number
        self._waiting.append(report)

    def _is_new(self, what: str) -> bool:
        if what in self._answered:
            return False
        self._answered[what] = None
        if len(self._answered) > ORDERS_KEPT:
            self._answered.popitem(last=False)
        return True


def _read_number(path: Path) -> int:
    try:
        return max(0, int(path.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
