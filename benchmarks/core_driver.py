"""Driving the core through a workload of known lengths: a clock, a stub of all agents, and what each job went through.

Only public words of the core are used: events in, commands out. Everything here is simulated; no time is measured.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from argosy.contracts.command import Launch, RunPass, Stop, WakeAt
from argosy.contracts.event import (
    AttemptEnded,
    AttemptRunning,
    Event,
    FleetDescribed,
    JobSubmitted,
    NodeSeen,
    NodesReleased,
    PassDue,
    PolicyChanged,
    TermBegan,
    TimeReached,
)
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option
from argosy.contracts.policy import SECOND_US, Policy
from argosy.contracts.request import Claim, Pool
from argosy.control.core import step
from argosy.control.state import State


@dataclass(slots=True)
class Life:
    """What became of one job. work_s: what is left to do, in seconds at a rate of 1; rates: by option and size."""

    claim: Claim
    rates: dict[tuple[str, int], float]
    left: float
    arrival_us: int
    chips: dict[tuple[str, int], int]
    attempt: str = ""
    rate: float = 0.0
    since_us: int = 0
    started_us: int | None = None
    ended_us: int | None = None
    starts: int = 0
    busy_chip_us: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job to hand in: its claim, ways to run, and what it has to do in units of its options' rates."""

    claim: Claim
    options: tuple[Option, ...]
    work: float
    arrival_us: int


@dataclass(slots=True)
class Driver:
    """The clock and all agents. start_us: how long a launch takes. gate: says when a pass that is due may run.

    changes: jobs that came or ended.
    """

    policy: Policy
    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    start_us: int = 0
    gate: Callable[["Driver"], int] = lambda driver: driver.now_us
    state: State = field(default_factory=lambda: State(0))
    lives: dict[str, Life] = field(default_factory=dict)
    now_us: int = 0
    running: dict[str, str] = field(default_factory=dict)
    _queue: list[tuple[int, int, str, str]] = field(default_factory=list)
    _count: int = 0
    changes: int = 0
    _pass_due: bool = False

    def run(self, requests: list[Request]) -> None:
        """Live until every job has ended."""
        self._send(TermBegan)
        self._send(PolicyChanged, policy=self.policy)
        self._send(FleetDescribed, pools=self.pools, nodes=self.nodes)
        for node in self.nodes:
            self._send(NodeSeen, node=node.name, observed="up")
        for index, request in enumerate(requests):
            self._at(request.arrival_us, "arrive", str(index))
        # After the last end nothing changes: a gate that waits for a change would put off a pass for ever.
        while self._queue and self.changes < 2 * len(requests):
            self.now_us = self._queue[0][0]
            while self._queue and self._queue[0][0] == self.now_us:
                _, _, what, about = heapq.heappop(self._queue)
                if what == "arrive":
                    self._arrive(requests[int(about)])
                else:
                    {"wake": self._wake, "up": self._up, "done": self._done, "look": self._look}[what](about)
            self._passes()

    def _passes(self) -> None:
        """Run passes until the core asks for no more at this instant."""
        at_us = self.gate(self) if self._pass_due else self.now_us
        if at_us > self.now_us:
            self._at(at_us, "look", "")
            return
        while self._pass_due:
            self._pass_due = False
            self._send(PassDue)

    def _send(self, kind: Callable[..., Event], **fields: object) -> None:
        """Send one event and do what comes of it."""
        record = step(self.state, kind(seq=self.state.seq + 1, now_us=self.now_us, term=1, **fields))
        for command in record.commands:
            if isinstance(command, RunPass):
                self._pass_due = True
            elif isinstance(command, WakeAt):
                self._at(command.at_us, "wake", "")
            elif isinstance(command, Launch):
                self._launch(command)
            elif isinstance(command, Stop):
                self._stop(command)

    def _at(self, at_us: int, what: str, about: str) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(at_us, self.now_us), self._count, what, about))

    def _arrive(self, request: Request) -> None:
        name = f"job-{self.state.seq + 1}"
        rates = {(o.name, i): size.tokens_per_second for o in request.options for i, size in enumerate(o.ladder)}
        per_node = {pool.name: pool.chips_per_node for pool in self.pools}
        chips = {
            (o.name, i): sum(part.nodes * per_node[part.chip_class] for part in size.parts)
            for o in request.options
            for i, size in enumerate(o.ladder)
        }
        self.lives[name] = Life(request.claim, rates, request.work, request.arrival_us, chips)
        self.changes += 1
        self._send(JobSubmitted, claim=request.claim, options=request.options)

    def _wake(self, _about: str) -> None:
        if any(at_us <= self.now_us for at_us, _, _ in self.state.timers[:1]):
            self._send(TimeReached)

    def _look(self, _about: str) -> None:
        """See whether a pass that waits may run."""

    def _launch(self, command: Launch) -> None:
        life = self.lives[command.job]
        life.attempt, life.starts = command.attempt, life.starts + 1
        life.held = life.chips[command.option, command.size]
        life.rate, life.since_us = life.rates[command.option, command.size], self.now_us + self.start_us
        if life.started_us is None:
            life.started_us = self.now_us
        self.running[command.attempt] = command.job
        self._at(life.since_us, "up", command.attempt)

    def _up(self, attempt: str) -> None:
        """Have all ranks of an attempt at work, and note when they will be done."""
        job = self.running.get(attempt)
        if job is not None:
            self._send(AttemptRunning, attempt=attempt, generation=1)
            life = self.lives[job]
            self._at(self.now_us + round(life.left / life.rate * SECOND_US), "done", attempt)

    def _done(self, attempt: str) -> None:
        job = self.running.get(attempt)
        if job is not None:
            self.changes += 1
            self.lives[job].ended_us = self.now_us
            self._send(AttemptEnded, attempt=attempt, generation=1, outcome="done")

    def _stop(self, command: Stop) -> None:
        """All nodes are left at once; what was done is kept."""
        job = self.running.pop(command.attempt, None)
        if job is not None:
            life = self.lives[job]
            ran_us = max(0, self.now_us - life.since_us)
            life.left -= life.rate * ran_us / SECOND_US
            life.busy_chip_us += life.held * (self.now_us - life.since_us + self.start_us)
        self._send(NodesReleased, attempt=command.attempt, generation=command.generation, nodes=command.nodes)
