"""Simulated agents: one a node, with ranks that run, exit and die, a lease, and a fence against old commands.

Must not know the core's state: an agent hears messages and sends heartbeats.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from argosy.contracts.fencing import Fence, Stamp
from argosy.simulate.world import MILLISECOND_US, SECOND_US, Network, World

BEAT_US = 10 * SECOND_US


@dataclass(frozen=True, slots=True)
class Message:
    """What the server tells an agent. boot: the agent process it is meant for. lead: its node reports the job's end.

    until_us: it is void from then on, as an answer is to a call that was given up: the server may count the node as
    parked and give it to others.
    """

    stamp: Stamp
    boot: int
    until_us: int
    lead: bool = False
    runs_us: int = 0
    by_us: int = 0

    @classmethod
    def stamped(cls, term: int, attempt: str, generation: int, *, stops: bool = False, **more: Any) -> "Message":
        """Make a message to launch or stop a generation of an attempt. more: the other fields."""
        return cls(stamp=Stamp(term=term, attempt=attempt, generation=generation, stops=stops), **more)


@dataclass(frozen=True, slots=True)
class Beat:
    """What an agent tells the server. running, closed: attempts' generations; exits: how ranks ended, until stopped."""

    node: str
    boot: int
    sent_us: int
    running: dict[str, int]
    closed: dict[str, int]
    exits: dict[str, tuple[int, str]]


@dataclass(slots=True)
class Memory:
    """What an agent process knows; gone with it."""

    fence: Fence = field(default_factory=Fence)
    running: dict[str, int] = field(default_factory=dict)
    exits: dict[str, tuple[int, str]] = field(default_factory=dict)
    lease_us: int = 0


class Agent:
    """One node's agent. alive: the machine is on. slow: it does everything twenty times slower."""

    def __init__(self, world: World, network: Network, name: str, hear: Callable[[Beat], None], lease_us: int) -> None:
        self.world, self.network, self.name, self.hear = world, network, name, hear
        self.lease_us = lease_us
        self.boot, self.alive, self.slow = 1, True, False
        self.memory = Memory(lease_us=world.now_us + lease_us)
        self.clashes: list[str] = []
        world.after(world.dice.below(BEAT_US), self.beat)

    def beat(self) -> None:
        """Send a heartbeat and come back; a lease that ran out parks all ranks first."""
        self.world.after(BEAT_US + self.world.dice.below(100) * MILLISECOND_US, self.beat)
        self.check_lease()
        if not self.alive:
            return
        memory = self.memory
        beat = Beat(
            self.name,
            self.boot,
            self.world.now_us,
            dict(memory.running),
            dict(memory.fence.closed),
            dict(memory.exits),
        )
        self.network.send(self.name, lambda: self.hear(beat))

    def check_lease(self) -> None:
        """Park all ranks if the server has not answered for too long; what was launched is closed, begun or not."""
        memory = self.memory
        if self.world.now_us >= memory.lease_us:
            memory.running.clear()
            memory.fence.closed |= memory.fence.generations

    def renew(self, boot: int, sent_us: int, term: int, lease_us: int) -> None:
        """Hear the server's answer to a heartbeat: the lease runs from when that was sent, as long as it says."""
        self.check_lease()
        memory = self.memory
        if self.alive and boot == self.boot and term >= memory.fence.term:
            memory.fence.term = term
            memory.lease_us = max(memory.lease_us, sent_us + lease_us)

    def obey(self, message: Message) -> None:
        """Hear a command: refuse what is old or meant for a former process."""
        self.check_lease()
        late = self.world.now_us >= message.until_us
        if late or not self.alive or message.boot != self.boot or self.memory.fence.refusal(message.stamp):
            return
        if message.stamp.stops:
            delay_us = max(0, message.by_us - self.world.now_us) + self._effort_us(300)
            self.world.after(delay_us, lambda: self._stop(message))
        else:
            self.memory.running.pop(message.stamp.attempt, None)
            self.world.after(self._effort_us(2_000), lambda: self._start(message))

    def _effort_us(self, usual_ms: int) -> int:
        return self.world.dice.between(1, usual_ms) * MILLISECOND_US * (20 if self.slow else 1)

    def _is_current(self, message: Message) -> bool:
        """Say whether the process that heard a message still stands, and nothing newer was heard since."""
        stamp, fence = message.stamp, self.memory.fence
        newest = fence.generations.get(stamp.attempt) == stamp.generation
        closed = not stamp.stops and fence.closed.get(stamp.attempt, -1) >= stamp.generation
        return self.alive and message.boot == self.boot and newest and not closed

    def _start(self, message: Message) -> None:
        """Start ranks; ranks of another attempt still on the node are a clash, which must never be."""
        stamp = message.stamp
        self.check_lease()
        if not self._is_current(message) or self.world.now_us >= self.memory.lease_us:
            return
        others = set(self.memory.running) - {stamp.attempt}
        if others:
            self.clashes.append(f"{self.name} at {self.world.now_us}: {stamp.attempt} beside {sorted(others)}")
        if self.memory.running.get(stamp.attempt) != stamp.generation:
            self.memory.running[stamp.attempt] = stamp.generation
            self.memory.exits.pop(stamp.attempt, None)
            if message.lead:
                self.world.after(message.runs_us, lambda: self.exit(stamp.attempt, stamp.generation, "done"))

    def _stop(self, message: Message) -> None:
        stamp = message.stamp
        if self.alive and message.boot == self.boot and self.memory.running.get(stamp.attempt, -1) <= stamp.generation:
            self.memory.running.pop(stamp.attempt, None)
            self.memory.exits.pop(stamp.attempt, None)

    def exit(self, attempt: str, generation: int, outcome: str) -> None:
        """Let ranks of a generation end by themselves, if they still run."""
        if self.alive and self.memory.running.get(attempt) == generation:
            del self.memory.running[attempt]
            self.memory.exits[attempt] = (generation, outcome)

    def die(self, back_us: int) -> None:
        """Lose all ranks and all memory; come back as another process after a while."""
        if self.alive:
            self.alive = False
            self.memory.running.clear()
            self.world.after(back_us, self._come_back)

    def _come_back(self) -> None:
        self.alive, self.boot = True, self.boot + 1
        self.memory = Memory(lease_us=self.world.now_us + self.lease_us)
