"""Watches the logs of one node's ranks as they grow: when what was written, marks of steps, patterns a user named.

Ranks write their logs themselves, so whoever watches may die without harm. Reads what is new now and then; knows
nothing of processes.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from argosy.agent.folder import AttemptFolder
from argosy.contracts.job import HangSpec, LogPattern

READ_BYTES = 1 << 20
"""The most that is searched of one log at one look; of what a rank writes faster, the oldest is passed over."""
LINE_CHARACTERS_MAX = 2000
TEXT_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that a pattern was looking for."""

    rank: int
    pattern: LogPattern
    line: str


@dataclass(slots=True)
class _Log:
    rank: int
    path: Path
    marks: Path
    size: int = 0
    rest: bytes = b""


@dataclass(slots=True)
class LogWatch:
    """The logs of some ranks. output_us, mark_us: when one last grew, and last showed a step; Unix time in us.

    They may be there already, when a launch of an earlier process of this runner wrote them.
    """

    folder: AttemptFolder
    ranks: Iterable[int]
    patterns: tuple[LogPattern, ...] = ()
    hang: HangSpec = field(default_factory=HangSpec)
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000
    output_us: int = 0
    mark_us: int = 0
    _logs: list[_Log] = field(default_factory=list)
    _compiled: list[tuple[re.Pattern[str], LogPattern]] = field(default_factory=list)
    _step: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        """Begin with empty logs."""
        self._logs = [_Log(rank, self.folder.log(rank), self.folder.marks(rank)) for rank in self.ranks]
        self._compiled = [(re.compile(pattern.match), pattern) for pattern in self.patterns]
        self._step = re.compile(self.hang.step_pattern) if self.hang.step_pattern else None
        self.output_us = self.now_us()

    def look(self) -> list[Match]:
        """Note which logs have grown since the last look; gives the lines that patterns were looking for."""
        found: list[Match] = []
        for log in self._logs:
            try:
                size = log.path.stat().st_size
            except OSError:
                continue
            if size > log.size:
                self._note(log)
                if self._compiled or self._step:
                    found += self._search(log, size)
                log.size = size
        return found

    def _note(self, log: _Log) -> None:
        """Write down that what stands from the former size on was written about now."""
        self.output_us = self.now_us()
        try:
            with log.marks.open("a", encoding="ascii") as file:
                file.write(f"{log.size} {self.output_us}\n")
        except OSError:
            pass  # the disk is full: times are a comfort, the run is not to suffer

    def _search(self, log: _Log, size: int) -> list[Match]:
        start = max(log.size, size - READ_BYTES)
        try:
            with log.path.open("rb") as file:
                file.seek(start)
                data = file.read(size - start)
        except OSError:
            return []
        if start > log.size:
            log.rest = b""
        *lines, log.rest = (log.rest + data).split(b"\n")
        log.rest = log.rest[-LINE_CHARACTERS_MAX:]
        return [match for line in lines for match in self._matches(log.rank, line)]

    def _matches(self, rank: int, line: bytes) -> list[Match]:
        text = line[:LINE_CHARACTERS_MAX].decode(errors="replace")
        if self._step and self._step.search(text):
            self.mark_us = self.output_us
        return [
            Match(rank=rank, pattern=pattern, line=text.strip()[:TEXT_CHARACTERS])
            for compiled, pattern in self._compiled
            if compiled.search(text)
        ]
