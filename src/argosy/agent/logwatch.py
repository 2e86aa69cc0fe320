"""Watches the logs of one node's ranks as they grow: when what was written, marks of steps, patterns a user named.

Ranks write their logs themselves, so whoever watches may die without harm; a pattern given up is told in them, too.
Reads what is new now and then; knows nothing of processes.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from argosy.agent.folder import AttemptFolder
from argosy.agent.matching import BoundedSearch
from argosy.contracts.job import HangSpec, LogPattern

READ_BYTES = 1 << 20
"""The most that is searched of one log at one look; of what a rank writes faster, the oldest is passed over."""
LOOK_S = 1.0
"""How long one look may search; lines beyond are passed over."""
LINE_CHARACTERS_MAX = 2000
TEXT_CHARACTERS = 300
OWN_LINE = b"[argosy] "
"""How lines begin that were written here, in which nothing is searched."""


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
    _bounded: BoundedSearch | None = None
    _given_up: set[str] = field(default_factory=set)
    _until_s: float = 0.0

    def __post_init__(self) -> None:
        """Begin with empty logs."""
        self._logs = [_Log(rank, self.folder.log(rank), self.folder.marks(rank)) for rank in self.ranks]
        self._compiled = [(re.compile(pattern.match), pattern) for pattern in self.patterns]
        self._step = re.compile(self.hang.step_pattern) if self.hang.step_pattern else None
        if self._compiled or self._step:
            self._bounded = BoundedSearch()
        self.output_us = self.now_us()

    def look(self) -> list[Match]:
        """Note which logs have grown since the last look; gives the lines that patterns were looking for."""
        found: list[Match] = []
        self._until_s = time.monotonic() + LOOK_S
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
        found: list[Match] = []
        for line in lines:
            if time.monotonic() >= self._until_s:
                break
            if not line.startswith(OWN_LINE):
                found += self._matches(log, line)
        return found

    def _matches(self, log: _Log, line: bytes) -> list[Match]:
        text = line[:LINE_CHARACTERS_MAX].decode(errors="replace")
        if self._step and self._finds(log, self._step, text):
            self.mark_us = self.output_us
        return [
            Match(rank=log.rank, pattern=pattern, line=text.strip()[:TEXT_CHARACTERS])
            for compiled, pattern in self._compiled
            if self._finds(log, compiled, text)
        ]

    def _finds(self, log: _Log, pattern: re.Pattern[str], text: str) -> bool:
        """Search a line, unless this pattern is given up."""
        if self._bounded is None or pattern.pattern in self._given_up:
            return False
        found = self._bounded.found(pattern, text)
        if found is None:
            self._give_up(log, pattern)
        return bool(found)

    def _give_up(self, log: _Log, pattern: re.Pattern[str]) -> None:
        """Search for a pattern no more, and tell so where its user looks; one of steps shows none any more."""
        self._given_up.add(pattern.pattern)
        if pattern is self._step:
            self.mark_us = 0
        words = f"pattern {pattern.pattern!r} took too long on one line; it is searched no more\n"
        with contextlib.suppress(OSError), log.path.open("ab") as file:
            file.write(OWN_LINE + words.encode(errors="replace"))
