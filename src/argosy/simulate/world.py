"""A simulated world: one clock, one queue of things to come, and a network that loses, doubles and delays messages.

Equal times resolve in the order things were asked for, so a seed replays a run. Must not know the core.
"""

import heapq
from collections.abc import Callable

from argosy.simulate.dice import Dice

MILLISECOND_US = 1_000
SECOND_US = 1_000_000


class World:
    """Time and chance. faults: how many of each kind were injected."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.now_us = 0
        self.faults: dict[str, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        """Do something at a time, or now if that is past."""
        self._order += 1
        heapq.heappush(self._queue, (max(time_us, self.now_us), self._order, action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        """Do something after a while."""
        self.at(self.now_us + delay_us, action)

    def run(self, until_us: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass up to a point, or until `stop` says so."""
        while self._queue and self._queue[0][0] <= until_us and not stop():
            self.now_us, _, action = heapq.heappop(self._queue)
            action()
        self.now_us = max(self.now_us, until_us) if not stop() else self.now_us

    def fault(self, kind: str) -> None:
        """Count a fault."""
        self.faults[kind] = self.faults.get(kind, 0) + 1


class Network:
    """Carries messages between the server and nodes. cut: nodes that are partitioned off; unruly: loss etc. are on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[str] = set()
        self.unruly = False

    def send(self, node: str, deliver: Callable[[], None]) -> None:
        """Carry one message to or from a node: late, twice or never."""
        dice = self.world.dice
        copies = 1
        if self.unruly and dice.permille(100):
            copies = dice.choice((0, 0, 2))
            self.world.fault("message lost" if copies == 0 else "message doubled")
        for _ in range(copies):
            delay_us = dice.between(1, 20) * MILLISECOND_US
            if self.unruly and dice.permille(50):
                delay_us += dice.between(1, 40) * SECOND_US
                self.world.fault("message held up")
            self.world.after(delay_us, lambda: self._arrive(node, deliver))

    def _arrive(self, node: str, deliver: Callable[[], None]) -> None:
        if node not in self.cut:
            deliver()
