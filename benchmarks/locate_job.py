"""A simulated training job of many ranks with TP, PP and DP groups, stopped by a fault: the traces it leaves.

Every rank runs the program of its pipeline stage (forward and backward of some micro-batches with TP collectives and
messages, then the exchange over DP and one collective of all) until it, or what it waits for, stops. Ranks are numbered
TP first, then DP, then PP, and fill hosts of eight.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from argosy.health.traces import (
    Collective,
    GroupTrace,
    LinkProbe,
    Liveness,
    RankState,
    RankTraceOfGroups,
    group_trace,
)

HOST_RANKS = 8
MICROBATCHES = 2
STEPS = 2
KEPT = 3
"""So many collectives of each group a trace holds."""
READ_US = 2_000_000_000
OPEN_US = READ_US - 60_000_000
OPERATIONS = {"tp": "all_reduce", "dp": "reduce_scatter", "gather": "all_gather", "world": "all_reduce"}
ELEMENTS = {"tp": 8_388_608, "dp": 33_554_432, "gather": 4_194_304, "world": 1}

Place = tuple[int, int, int]
"""A rank's stage, replica and TP index."""


@dataclass(frozen=True, slots=True)
class Op:
    """One step of a stage's program. kind: tp, dp, gather, world, send or receive; to: the stage of the other end."""

    kind: str
    to: int = -1


@dataclass(kw_only=True)
class Job:
    """A job's shape, and its faults.

    halts: ranks that stop before they enter this step of their program. silent: ranks that leave no trace. poisoned:
    (kind of group, group, step) that all enter and none leaves. odd: what some ranks do instead at a step. asked:
    agents were asked after processes and links.
    """

    tp: int
    pp: int
    dp: int
    halts: dict[Place, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    poisoned: set[tuple[str, Place, int]] = field(default_factory=set)
    odd: dict[tuple[int, int], Collective] = field(default_factory=dict)
    states: dict[int, RankState] = field(default_factory=dict)
    probes: list[LinkProbe] = field(default_factory=list)
    asked: bool = True

    @property
    def size(self) -> int:
        """Count the ranks."""
        return self.tp * self.pp * self.dp

    def rank(self, place: Place) -> int:
        """Give a rank's number."""
        stage, replica, slice_ = place
        return (stage * self.dp + replica) * self.tp + slice_

    def place(self, rank: int) -> Place:
        """Find a rank's place."""
        rest, slice_ = divmod(rank, self.tp)
        stage, replica = divmod(rest, self.dp)
        return stage, replica, slice_

    def host(self, rank: int) -> str:
        """Name a rank's host."""
        return f"node-{rank // HOST_RANKS}"

    def on_host(self, rank: int) -> range:
        """Give all ranks of a rank's host."""
        first = rank // HOST_RANKS * HOST_RANKS
        return range(first, min(first + HOST_RANKS, self.size))

    def program(self, stage: int) -> tuple[Op, ...]:
        """Write a stage's program."""
        return _program(stage, self.pp)

    def liveness(self) -> Liveness:
        """Give what agents would know: all ranks run but for those that the faults name; nothing if nobody asked."""
        if not self.asked:
            return Liveness()
        running = {rank: RankState(state="running", host=self.host(rank)) for rank in range(self.size)}
        return Liveness(ranks=running | self.states, probes=tuple(self.probes))


@cache
def _program(stage: int, stages: int) -> tuple[Op, ...]:
    ops: list[Op] = []
    for _ in range(STEPS):
        for _ in range(MICROBATCHES):
            ops += [Op("receive", stage - 1)] if stage else []
            ops += [Op("tp"), Op("tp")]
            ops += [Op("send", stage + 1)] if stage < stages - 1 else []
        for _ in range(MICROBATCHES):
            ops += [Op("receive", stage + 1)] if stage < stages - 1 else []
            ops += [Op("tp"), Op("tp")]
            ops += [Op("send", stage - 1)] if stage else []
        ops += [Op("dp"), Op("gather"), Op("world")]
    return tuple(ops)


@cache
def _answers(stage: int, stages: int) -> tuple[int, ...]:
    """For each message of a stage's program the step of the other end's program that it meets; -1 for the rest."""
    found = []
    ops = _program(stage, stages)
    for step, op in enumerate(ops):
        if op.to < 0:
            found.append(-1)
            continue
        which = sum(1 for each in ops[:step] if each == op)
        other = Op("receive" if op.kind == "send" else "send", stage)
        places = [place for place, each in enumerate(_program(op.to, stages)) if each == other]
        found.append(places[which])
    return tuple(found)


def run(job: Job) -> np.ndarray:
    """Run a job until nothing moves; gives the step that each rank has entered and not left, by place.

    A rank that halted has entered nothing, so its step is not begun; one at the end of its program is done.
    """
    at = np.zeros((job.pp, job.dp, job.tp), dtype=np.int64)
    halt = np.full(at.shape, np.iinfo(np.int64).max)
    for place, step in job.halts.items():
        halt[place] = step
    while True:
        reach = at + (at < halt)
        moved = False
        for stage in range(job.pp):
            for step in np.unique(at[stage]).tolist():
                if step < len(job.program(stage)):
                    done = (at[stage] == step) & _done(job, stage, step, reach)
                    at[stage][done] += 1
                    moved |= bool(done.any())
        if not moved:
            return at


def _done(job: Job, stage: int, step: int, reach: np.ndarray) -> np.ndarray:
    """Tell by replica and TP index whether a step of a stage ends."""
    op = job.program(stage)[step]
    mine = reach[stage]
    if op.kind in ("send", "receive"):
        other = _answers(stage, job.pp)[step]
        return (mine > step) & (reach[op.to] > other)
    if op.kind == "world":
        count = sum(each.kind == "world" for each in job.program(stage)[: step + 1])
        meets = [_nth(job, other, "world", count) for other in range(job.pp)]
        together = all(bool((reach[other] > meet).all()) for other, meet in enumerate(meets))
        return np.full(mine.shape, together)
    axis = 1 if op.kind == "tp" else 0
    done = np.broadcast_to((mine > step).all(axis=axis, keepdims=True), mine.shape).copy()
    for kind, (_, replica, slice_), _ in (each for each in job.poisoned if each[1][0] == stage and each[2] == step):
        if kind == "tp":
            done[replica, :] = False
        else:
            done[:, slice_] = False
    return done


def _nth(job: Job, stage: int, kind: str, count: int) -> int:
    places = [step for step, each in enumerate(job.program(stage)) if each.kind == kind]
    return places[count - 1]


def traces_of(job: Job, at: np.ndarray) -> list[RankTraceOfGroups]:
    """Write the traces that the ranks of a stopped job leave."""
    groups = _Groups(_members(job))
    return [_trace(job, rank, int(at[job.place(rank)]), groups) for rank in range(job.size) if rank not in job.silent]


def _members(job: Job) -> Mapping[tuple[str, Place], tuple[int, ...]]:
    found: dict[tuple[str, Place], tuple[int, ...]] = {}
    for stage in range(job.pp):
        for replica in range(job.dp):
            found["tp", (stage, replica, 0)] = tuple(job.rank((stage, replica, t)) for t in range(job.tp))
        for slice_ in range(job.tp):
            found["dp", (stage, 0, slice_)] = tuple(job.rank((stage, d, slice_)) for d in range(job.dp))
    for replica in range(job.dp):
        for slice_ in range(job.tp):
            found["pp", (0, replica, slice_)] = tuple(job.rank((p, replica, slice_)) for p in range(job.pp))
    found["world", (0, 0, 0)] = tuple(range(job.size))
    return found


def _trace(job: Job, rank: int, step: int, made: "_Groups") -> RankTraceOfGroups:
    stage, replica, slice_ = place = job.place(rank)
    inside = step < len(job.program(stage)) and job.halts.get(place, step + 1) > step
    homes = {
        "tp": (stage, replica, 0),
        "dp": (stage, 0, slice_),
        "pp": (0, replica, slice_),
        "world": (0, 0, 0),
    }
    groups = []
    for kind, home in homes.items():
        done, messages = _kept(stage, job.pp, kind, step, inside)
        if job.odd and inside and (odd := job.odd.get((rank, step))) and done and done[-1].state == "started":
            done = (*done[:-1], _like(odd, done[-1]))
        if messages:
            other = messages[0].peer or 0
            peer = job.rank((other, replica, slice_))
            messages = (_to(messages[0].operation, peer),)
        groups.append(made.trace(kind, home, done, messages))
    return RankTraceOfGroups(rank=rank, groups=tuple(groups), host=job.host(rank), at_us=READ_US)


class _Groups:
    """Makes traces of groups; ranks that did the same share one, so that a large job fits into memory."""

    def __init__(self, members: Mapping[tuple[str, Place], tuple[int, ...]]) -> None:
        self._members = members
        self._made: dict[tuple[object, ...], GroupTrace] = {}

    def trace(
        self, kind: str, home: Place, collectives: tuple[Collective, ...], messages: tuple[Collective, ...] = ()
    ) -> GroupTrace:
        """Give what a rank's trace holds of a group."""
        key = (kind, home, collectives, messages)
        if key not in self._made:
            name = f"{kind} {'.'.join(map(str, home))}"
            members = self._members[kind, home]
            self._made[key] = group_trace(name, collectives, description=kind, members=members, messages=messages)
        return self._made[key]


def _like(odd: Collective, usual: Collective) -> Collective:
    return Collective(
        sequence=usual.sequence,
        operation=odd.operation,
        state="started",
        dtype=odd.dtype,
        size=odd.size,
        enqueued_us=usual.enqueued_us,
        started_us=usual.started_us,
    )


@cache
def _to(operation: str, peer: int) -> Collective:
    return Collective(sequence=0, operation=operation, state="started", peer=peer, started_us=OPEN_US)


@cache
def _kept(
    stage: int, stages: int, kind: str, step: int, inside: bool
) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """Give what a trace holds of one kind of group at a step of a stage's program: collectives and open messages."""
    entered = step + inside
    ops = list(enumerate(_program(stage, stages)[:entered]))
    if kind == "pp":
        last = ops[-1][1] if ops and inside else Op("tp")
        open_ = last.kind in ("send", "receive")
        return (), (Collective(sequence=0, operation=last.kind, peer=last.to),) if open_ else ()
    mine = [(place, op) for place, op in ops if (op.kind if op.kind != "gather" else "dp") == kind]
    found = []
    for number, (place, op) in list(enumerate(mine, start=1))[-KEPT:]:
        running = inside and place == step
        found.append(_collective(number, op.kind, None if running else place))
    return tuple(found), ()


@cache
def _collective(number: int, kind: str, done_at: int | None) -> Collective:
    """Make a collective; done_at: the step that ended, None while it runs."""
    start_us = OPEN_US if done_at is None else 1_000_000_000 + 10_000 * done_at
    return Collective(
        sequence=number,
        operation=OPERATIONS[kind],
        state="started" if done_at is None else "finished",
        dtype="BFloat16",
        size=ELEMENTS[kind],
        enqueued_us=start_us,
        started_us=start_us,
        finished_us=None if done_at is None else start_us + 5_000,
    )


def timed(
    job: Job, *, slow_rank: int | None = None, slow_groups: Iterable[str] = (), rounds: int = 6
) -> Iterator[RankTraceOfGroups]:
    """Write the traces of a job that runs on, `rounds` collectives a group.

    slow_rank: comes 40 ms late to each. slow_groups: names of DP groups whose transfers take five times as long.
    """
    slow = set(slow_groups)
    late = job.place(slow_rank) if slow_rank is not None else None
    made = _Groups(_members(job))
    for rank in range(job.size):
        stage, replica, slice_ = job.place(rank)
        homes = {"tp": (stage, replica, 0), "dp": (stage, 0, slice_)}
        groups = []
        for kind, home in homes.items():
            # the slow one is late itself; its TP group waits for it, so all of that group are late to DP
            shared = late is not None and late[:2] == (stage, replica)
            own = rank == slow_rank if kind == "tp" else shared
            others = shared if kind == "tp" else late is not None and late[0] == stage
            name = f"{kind} {'.'.join(map(str, home))}"
            done = _rounds(kind, own, others, 5 if name in slow else 1, rounds)
            groups.append(made.trace(kind, home, done))
        yield RankTraceOfGroups(rank=rank, groups=tuple(groups), host=job.host(rank), at_us=READ_US)


@cache
def _rounds(kind: str, late: bool, waits: bool, times: int, rounds: int) -> tuple[Collective, ...]:
    found = []
    for number in range(1, rounds + 1):
        begin_us = 1_000_000_000 + 100_000 * number + (40_000 if late else 0)
        end_us = 1_000_000_000 + 100_000 * number + (40_000 if waits else 0) + 5_000 * times
        found.append(
            Collective(
                sequence=number,
                operation=OPERATIONS[kind],
                state="finished",
                dtype="BFloat16",
                size=ELEMENTS[kind],
                enqueued_us=begin_us,
                started_us=begin_us,
                finished_us=end_us,
            )
        )
    return tuple(found)
