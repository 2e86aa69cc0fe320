"""Reads whatever `argosy diagnose` was given: logs into sightings, dumps into what their reader makes of them.

Opens and counts; judging is the room `health`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.cli.diagnose_files import Log, Reading, find_files, printable, read_logs
from argosy.cli.diagnose_slow import SlowSearches
from argosy.cli.waiting import Waiting
from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.health.dumps import Dump, kind_of, read_dump
from argosy.health.intake import Intake
from argosy.health.keeper import Keeper, Taken
from argosy.health.scanner import Needles, Scanner

# A dump is read whole: a flight recorder of 2,000 entries with stacks has some tens of megabytes.
DUMP_BYTES_MAX = 1 << 29
MEGABYTE = 1_000_000
STACKS_BYTES_MAX = 1 << 18
# Stacks and RAS' words may open a log of any size; longer ones are read as logs alone.
TEXT_DUMP_BYTES_MAX = 1 << 24
TEXT_KINDS = frozenset({"stacks", "ras"})
# What reading a stranger's dump may raise besides what is told.
DAMAGED = (ArgosyError, ValueError, TypeError, ArithmeticError, LookupError, RuntimeError, MemoryError)
_STACKS = Needles(b"Timeout (")
_TIMEOUT = re.compile(rb"^Timeout \(\d+:\d\d:\d\d[^)\n]*\)!\r?\n", re.MULTILINE)
_ZONE = re.compile(r"(?:UTC|GMT)?(?:(?P<sign>[+-])(?P<hours>0?\d|1[0-4])(?::?(?P<minutes>[0-5]\d))?)?|Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What the files gave. dumps: in the order read. logs, lines: how many were searched."""

    taken: Taken
    dumps: tuple[Dump, ...]
    reading: Reading
    logs: int
    lines: int


def take_files(names: Sequence[str], scanner: Scanner, zone_minutes: int | None = None) -> Files:
    """Read files and folders, and search the logs. zone_minutes: of times that name no zone, where that is told.

    Raises BadInputError for a name that isn't there, where nothing can be read, and for a pattern that is too slow;
    what else is wrong is noted.
    """
    reading, keeper = Reading(), Keeper()
    paths = find_files(names, reading)
    dumps: list[Dump] = []
    logs = lines = 0
    with Waiting("reading") as waiting, SlowSearches(scanner) as searches:
        for log in read_logs(_told(paths, waiting), reading):
            searches.log = log.name
            dump = _dump(log, reading)
            dumps += [] if dump is None else [dump]
            # Stacks and words of RAS may stand in the middle of a log, so that log is searched as well.
            if dump is not None and dump.kind not in TEXT_KINDS:
                continue
            if log.binary:
                reading.note(f"{log.name}: holds no text and is no dump that is known; it was left out")
                continue
            intake, stacks = Intake(scanner, keeper, log.name), b""
            for block in log.blocks:
                intake.feed(block)
                stacks = _last_stacks(stacks, block)
                waiting.progress = f" {reading.files:,} of {len(paths):,} files, {reading.read_bytes // MEGABYTE:,} MB"
            intake.close()
            dumps += _stacks(log.name, stacks, intake.rank) if dump is None else []
            logs, lines = logs + 1, lines + intake.lines
        taken = keeper.settled(reading.newest_us, zone_minutes)
    if not logs and not dumps:
        why = reading.notes[0] if reading.notes else f"{', '.join(names)}: nothing to read there, or it is empty"
        raise BadInputError(f"{why}; name logs or dumps")
    return Files(taken=taken, dumps=tuple(dumps), reading=reading, logs=logs, lines=lines)


def read_zone(text: str) -> int:
    """Read a time zone such as `+08:00` or `UTC`, in minutes east of UTC; raises BadInputError."""
    found = _ZONE.fullmatch(text.strip().upper())
    if found is None:
        raise BadInputError(f"--timezone {text}: write hours and minutes east of UTC, such as +08:00, -05:30 or UTC")
    minutes = int(found["hours"] or 0) * 60 + int(found["minutes"] or 0)
    return -minutes if found["sign"] == "-" else minutes


def _told(paths: Sequence[Path], waiting: Waiting) -> Iterator[Path]:
    """Say which file is opened next: a pipe that nobody writes to never opens."""
    for path in paths:
        waiting.progress = f" {printable(str(path))}"
        yield path


def _last_stacks(kept: bytes, block: bytes) -> bytes:
    """Keep the last stacks that faulthandler wrote into a log because a program's own time-out passed."""
    if _STACKS.stand_in(block):
        found = list(_TIMEOUT.finditer(block))
        kept, block = (b"", block[found[-1].end() :]) if found else (kept, block)
    elif not kept:
        return b""
    return (kept + block[:STACKS_BYTES_MAX])[:STACKS_BYTES_MAX]


def _stacks(name: str, data: bytes, rank: int | None) -> list[Dump]:
    """Read the stacks in a log whose name tells the rank."""
    dump = read_dump(name, data, data) if data and rank is not None and kind_of(data) == "stacks" else None
    return [replace(dump, rank=rank)] if dump is not None else []


def _dump(log: Log, reading: Reading) -> Dump | None:
    """Read a file that looks like a dump; None where it is none, or none that can be read."""
    kind = kind_of(log.head)
    if kind is None:
        return None
    bytes_max = TEXT_DUMP_BYTES_MAX if kind in TEXT_KINDS else DUMP_BYTES_MAX
    data = log.whole(bytes_max)
    if data is None:
        reading.note(f"{log.name}: looks like a dump, but has over {bytes_max // MEGABYTE} MB; read as a log")
        return None
    try:
        return read_dump(log.name, log.head, data)
    except DAMAGED as error:
        told = str(error) if isinstance(error, ArgosyError) else f"{log.name}: damaged: {error or type(error).__name__}"
        reading.note(told if log.name in told else f"{log.name}: {told}")
        return None
