"""The events that people follow: the newest in memory, a bell for each who listens, resumable by id.

Lives on the event loop's thread. Must not know HTTP, nor what the events say.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import takewhile

from argosy.server.models import EventView

KEPT = 10_000
AT_ONCE = 500
LAST, DIGITS = 2**62, 20

Older = Callable[[int], list[EventView]]
"""Gives events after a record's number from the store, oldest first; empty at the end."""


class Feed:
    """The newest events. older: where to look for those that are kept no more."""

    def __init__(self, older: Older) -> None:
        self._older = older
        self._events: deque[EventView] = deque(maxlen=KEPT)
        self._bells: set[asyncio.Event] = set()
        self.closed = False

    def publish(self, events: Sequence[EventView]) -> None:
        """Add events and ring."""
        self._events.extend(events)
        for bell in self._bells:
            bell.set()

    def note(self, make: Callable[[str], EventView]) -> None:
        """Add an event that is in no record, right behind the newest: it is kept only here. make: is given its id."""
        seq, index = self._end()
        self.publish((make(f"{seq}.{index + 1}"),))

    def close(self) -> None:
        """Let everybody who listens go."""
        self.closed = True
        for bell in self._bells:
            bell.set()

    async def follow(self, after: str, patience_s: float) -> AsyncIterator[EventView | None]:
        """Give events after an id as they come; None when there was none for so long. An empty id: from now on."""
        place = place_of(after) if after else self._end()
        with self._bell() as bell:
            while not self.closed:
                bell.clear()
                found = await self._after(place)
                for event in found:
                    place = place_of(event.id)
                    yield event
                if not found:
                    try:
                        await asyncio.wait_for(bell.wait(), patience_s)
                    except TimeoutError:
                        yield None

    @contextlib.contextmanager
    def _bell(self) -> Iterator[asyncio.Event]:
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    async def _after(self, place: tuple[int, int]) -> list[EventView]:
        """Find what comes after a place: in memory if it reaches back so far, else in the store."""
        reaches = bool(self._events) and place_of(self._events[0].id) <= place
        if not reaches:
            seq = max(0, place[0] - 1)
            while older := await asyncio.to_thread(self._older, seq):
                found = [event for event in older if place_of(event.id) > place]
                if found:
                    return found
                seq = place_of(older[-1].id)[0]
        newer = list(takewhile(lambda event: place_of(event.id) > place, reversed(self._events)))
        return newer[::-1][:AT_ONCE]

    def _end(self) -> tuple[int, int]:
        return place_of(self._events[-1].id) if self._events else (0, 0)


def place_of(name: str) -> tuple[int, int]:
    """Read an event's id, `SEQ.INDEX`; what is none counts as the beginning, and what no event can have as the end."""
    seq, _, index = name.partition(".")
    numbers = [min(int(part[:DIGITS]), LAST) if part.isdecimal() else 0 for part in (seq, index)]
    return numbers[0], numbers[1]
