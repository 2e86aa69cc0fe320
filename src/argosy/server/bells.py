"""Waits of very many at once, each for its own bell, all for a limited time and with few timers.

Lives on the event loop's thread. Must not know who waits for what.
"""

import asyncio
import math
from collections.abc import Iterable

TICK_S = 0.05
"""Waits end up to so much late, so that those which end at about the same time share a timer."""


class Bell:
    """Rings once; one that was rung before the wait begins is heard too."""

    __slots__ = ("rung", "waiter")

    def __init__(self) -> None:
        self.rung = False
        self.waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Let go who waits."""
        self.rung = True
        if self.waiter is not None:
            _let_go((self.waiter,))


class Waits:
    """Waits that end by a bell or by time."""

    def __init__(self) -> None:
        self._ends: dict[int, list[asyncio.Future[None]]] = {}

    async def wait(self, bell: Bell, limit_s: float) -> None:
        """Wait for a bell, at most about so long."""
        if bell.rung:
            return
        events = asyncio.get_running_loop()
        bell.waiter = events.create_future()
        tick = math.ceil((events.time() + limit_s) / TICK_S)
        ends = self._ends.get(tick)
        if ends is None:
            ends = self._ends[tick] = []
            events.call_at(tick * TICK_S, self._end, tick)
        ends.append(bell.waiter)
        await bell.waiter

    def _end(self, tick: int) -> None:
        _let_go(self._ends.pop(tick))


def _let_go(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
