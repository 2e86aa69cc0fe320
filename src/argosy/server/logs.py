"""Logs of a job's ranks, which lie on their nodes until somebody asks: the last lines merged by time, then new ones.

Asks for parts and joins them; must not know HTTP, nor where ranks are.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import LogPart
from argosy.server.models import LogLine

PART_BYTES = 1 << 18
ALL_BYTES = 16 << 20
LEAST_BYTES = 1 << 12
"""The most that is read of one log at a time, of all logs together, and of each of very many all the same."""
TAIL_BYTES_A_LINE = 200
LINE_CHARACTERS_MAX = 65_536
CUT = "[...] "
"""Before the end of a line that is longer than what is read."""
POLL_S = 0.5
AT_ONCE = 64
"""So many ranks are read at a time."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Where one rank's log is read on. rest: the beginning of a line whose end has not come. first: it failed first."""

    attempt: str
    generation: int
    rank: int
    node: str
    first: bool = False
    offset: int = 0
    rest: bytes = b""
    ended: bool = False
    begun: bool = False


ReadPart = Callable[[Place, int, int], Awaitable[LogPart]]
"""Reads a part: place, offset, limit in bytes."""


async def last_lines(
    places: Sequence[Place], tail: int, read: ReadPart, *, live: bool = False, more: bool = True
) -> list[LogLine]:
    """Give the last lines of every rank, merged by time; those of the one that failed first come before all.

    live: the attempt is not over, so a rank without a log may yet begin. more: new lines are read after these, so one
    whose end has not come is left to them.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    share = max(LEAST_BYTES, ALL_BYTES // max(1, len(places)))
    most = min(PART_BYTES, share, max(LEAST_BYTES, tail * TAIL_BYTES_A_LINE))

    async def one(place: Place) -> list[LogLine]:
        async with gate:
            lines = await _read(place, -most, most, read, live=live, more=more)
            return lines[-tail:]

    found = await asyncio.gather(*(one(place) for place in places))
    rows = [(place, line) for place, lines in zip(places, found, strict=True) for line in lines]
    rows.sort(key=lambda row: (not row[0].first, row[1].at_us or 0))
    return [line for _, line in rows]


async def new_lines(
    places: Sequence[Place], over: Callable[[], Awaitable[bool]], read: ReadPart
) -> AsyncIterator[list[LogLine]]:
    """Give lines as they come, until all ranks have ended or nothing runs any more. over: says so."""
    most = min(PART_BYTES, max(LEAST_BYTES, ALL_BYTES // max(1, len(places))))
    while True:
        done = await over()
        alive = [place for place in places if not place.ended]
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(place: Place, gate: asyncio.Semaphore = gate, live: bool = not done) -> list[LogLine]:
            async with gate:
                return await _read(place, place.offset, most, read, live=live, more=True)

        found = await asyncio.gather(*(one(place) for place in alive))
        lines = sorted((line for each in found for line in each), key=lambda line: line.at_us or 0)
        yield lines
        if not lines and (done or not alive):
            return
        if not lines:
            await asyncio.sleep(POLL_S)


async def _read(place: Place, offset: int, limit: int, read: ReadPart, *, live: bool, more: bool) -> list[LogLine]:
    """Read on in one rank's log; what can't be read is a line that says why."""
    try:
        part = await read(place, offset, limit)
    except InfrastructureError as error:
        place.ended = True
        return [LogLine(rank=place.rank, node=place.node, offset=place.offset, text=f"[{error}]")]
    place.offset = part.next_offset
    # A log that is at its end may still grow while its rank lives.
    place.ended = part.ended and part.next_offset >= part.size
    if part.text and not part.data:
        # Its node may not even have heard of it yet.
        place.ended = place.ended and not live
        return [] if not place.ended else [_line(place, part.next_offset, None, f"[{part.text}]")]
    return _lines(place, part, time.time_ns() // 1000 if live else None, more and not place.ended)


def _lines(place: Place, part: LogPart, new_us: int | None, more: bool) -> list[LogLine]:
    """Cut a part into lines, each with about when it was written.

    new_us: where its node has not noted that yet. more: the end of the last line may come with the next part.
    """
    begin = part.offset - len(place.rest)
    pieces = (place.rest + part.data).split(b"\n")
    # The last part of a log begins in the middle of a line, which is left out unless there is nothing else.
    cut = part.offset > 0 and not place.begun
    if cut and any(pieces[1:]):
        begin += len(pieces.pop(0)) + 1
        cut = False
    place.begun = True
    # A line without an end must not fill the memory.
    waits = more and len(pieces[-1]) < LINE_CHARACTERS_MAX
    last = pieces.pop()
    place.rest = last if waits else b""
    pieces += [last] if last and not waits else []
    starts = [start for start, _ in part.marks]
    found = []
    for piece in pieces:
        index = bisect_right(starts, begin) - 1
        at_us = part.marks[index][1] if index >= 0 else new_us
        begin = min(begin + len(piece) + 1, part.next_offset)
        text = (
            CUT + piece[-(LINE_CHARACTERS_MAX // 2) :].decode(errors="replace")
            if cut
            else piece.decode(errors="replace")
        )
        cut = False
        found.append(_line(place, begin, at_us, text.rstrip("\r")))
    return found


def _line(place: Place, offset: int, at_us: int | None, text: str) -> LogLine:
    return LogLine(rank=place.rank, node=place.node, offset=offset, at_us=at_us, text=text[:LINE_CHARACTERS_MAX])
