"""Event-level timeline of a plan: when every forward, backward, exchange and update of a step begins and ends.

Follows docs/plan.md ("The rules of a step") to the letter; the trainer's emulated clock follows the same rules with
real arithmetic in between. Exchanges are timed unit by unit, though small units travel in buckets
(Plan.bucket_bytes). Times what it is given: it must not know chips, FLOPs or what would be better.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Replica, Stage
from argosy.network.exchanges import gathered, gradient_delay_ms, serve_exchanges, serve_gathers
from argosy.network.wires import Queue, Served, find_wire
from argosy.plan.check import check_plan
from argosy.plan.schedules import BACKWARD, FORWARD, stage_order

UPDATE = "U"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One piece of work of one stage. kind: F, B or U (update, microbatch -1). Times count from the barrier before."""

    replica: int
    stage: int
    kind: str
    microbatch: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One exchange or gather of a step. kind: exchange or gather. ready_ms: when all members were ready for it."""

    kind: str
    unit: int
    wire: str
    members: tuple[tuple[int, int], ...]
    ready_ms: float
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One step from barrier to barrier, in the steady state; times in ms from the barrier that began it.

    barriers_ms: absolute times of every step's closing barrier; step_ms: between the last two. busy[r][s]: share of the
    step that the stage computes. bubble: idle share of the mean stage. exposed_ms: what the last exchange adds after
    the last backward.
    """

    step_ms: float
    barriers_ms: tuple[float, ...]
    ops: tuple[Op, ...]
    moved: tuple[Moved, ...]
    busy: tuple[tuple[float, ...], ...]
    bubble: float
    exposed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One replica's walk through a step's forwards and backwards. Shared by replicas that are alike.

    work: (stage, kind, microbatch, start_ms, end_ms). ends_ms, last_backward_ms: by stage; when it is through, and when
    the backward of its last micro-batch began.
    """

    work: tuple[tuple[int, str, int, float, float], ...]
    ends_ms: tuple[float, ...]
    last_backward_ms: tuple[float, ...]


def simulate(plan: Plan, steps: int = 3, detail: bool = True) -> Timeline:
    """Time a plan over a few steps; the last one is what the Timeline shows.

    From the second step on all steps are alike, for each begins with every clock at the same barrier. detail: list the
    ops too (one for every forward and backward of every replica). Raises BadInputError for a plan that can't run.
    """
    check_plan(plan)
    if steps < 1:
        raise BadInputError(f"steps {steps}; a timeline needs at least 1")
    walk = Walk(plan)
    begins = [[0.0] * len(replica.stages) for replica in plan.replicas]
    gathers: list[Moved] = []
    barriers = [0.0]
    for index in range(steps):
        if index:
            begins, gathers = walk.update(barriers[-1])
        passes = walk.passes(begins)
        exchanges = walk.exchanges(passes)
        computed_ms = max(max(run.ends_ms) for run in passes)
        exchanged_ms = max((e.end_ms for e in exchanges), default=computed_ms)
        barriers.append(max(computed_ms, exchanged_ms) + plan.barrier_ms)
    updated = steps > 1
    begin_ms, step_ms = barriers[-2], barriers[-1] - barriers[-2]
    busy = busy_shares(plan, step_ms, updated)
    return Timeline(
        step_ms=step_ms,
        barriers_ms=tuple(barriers[1:]),
        ops=listed_ops(plan, passes, begin_ms, updated) if detail else (),
        moved=tuple(rebased(m, begin_ms) for m in (*gathers, *exchanges)),
        busy=busy,
        bubble=1 - mean([share for row in busy for share in row]),
        exposed_ms=max(0.0, exchanged_ms - computed_ms),
    )


class Walk:
    """The rules of a step, applied to one plan; holds only what does not change from step to step."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.gathered = gathered(plan)
        delays: dict[tuple[int, int], float] = {}
        self.delays = tuple(tuple(self.delay_ms(r, s, e.unit, delays) for r, s in e.members) for e in plan.exchanges)

    def delay_ms(self, replica: int, stage: int, unit: int, known: dict[tuple[int, int], float]) -> float:
        """How long after its last backward's start a stage has a unit's gradient; like stages are asked once."""
        held = self.plan.replicas[replica].stages[stage]
        key = (id(held), unit)
        if key not in known:
            known[key] = gradient_delay_ms(self.plan, held, unit)
        return known[key]

    def passes(self, begins: Sequence[Sequence[float]]) -> list[Pass]:
        """Run forwards and backwards of every replica; equal replicas that begin alike are run once."""
        known: dict[tuple[object, ...], Pass] = {}
        result = []
        for replica, begin in zip(self.plan.replicas, begins, strict=True):
            times = tuple((stage.forward_ms, stage.backward_ms) for stage in replica.stages)
            key = (times, replica.sends, replica.microbatches, tuple(begin))
            if key not in known:
                known[key] = run_replica(self.plan, replica, begin)
            result.append(known[key])
        return result

    def exchanges(self, passes: Sequence[Pass]) -> list[Moved]:
        """Serve the gradient exchanges, each ready when its last member is."""
        ready = [
            max(passes[r].last_backward_ms[s] + delay for (r, s), delay in zip(e.members, delays, strict=True))
            for e, delays in zip(self.plan.exchanges, self.delays, strict=True)
        ]
        served = serve_exchanges(self.plan, ready)
        return [moved("exchange", e, r, s) for e, r, s in zip(self.plan.exchanges, ready, served, strict=True)]

    def update(self, barrier_ms: float) -> tuple[list[list[float]], list[Moved]]:
        """Leave the barrier: update, then gather what was sharded. Answers each stage's clock and what was gathered."""
        clocks = [[barrier_ms + stage.update_ms for stage in replica.stages] for replica in self.plan.replicas]
        ready = [max(clocks[r][s] for r, s in exchange.members) for exchange in self.gathered]
        served = serve_gathers(self.plan, ready)
        for exchange, end in zip(self.gathered, served, strict=True):
            for r, s in exchange.members:
                clocks[r][s] = max(clocks[r][s], end.end_ms)
        return clocks, [moved("gather", e, r, s) for e, r, s in zip(self.gathered, ready, served, strict=True)]


def run_replica(plan: Plan, replica: Replica, begin: Sequence[float]) -> Pass:
    """Run one replica's forwards and backwards from its stages' clocks on.

    Each stage works down its own order until it waits for something that has not been sent; what it sends wakes its
    neighbour.
    """
    count = len(replica.stages)
    orders = [stage_order(plan.schedule, s, count, replica.microbatches) for s in range(count)]
    nexts, clocks, last = [0] * count, list(begin), [0.0] * count
    posts = Posts(plan, replica)
    work: list[tuple[int, str, int, float, float]] = []
    awake = list(range(count - 1, -1, -1))
    while awake:
        s = awake.pop()
        stage, order = replica.stages[s], orders[s]
        while nexts[s] < len(order):
            kind, microbatch = order[nexts[s]]
            arrival = posts.arrival_ms(kind, s, microbatch)
            if arrival is None:
                break
            start = max(clocks[s], arrival)
            clocks[s] = start + (stage.forward_ms if kind == FORWARD else stage.backward_ms)
            work.append((s, kind, microbatch, start, clocks[s]))
            last[s] = start
            nexts[s] += 1
            neighbour = posts.send(kind, s, clocks[s])
            if neighbour is not None:
                awake.append(neighbour)
    stuck = [s for s in range(count) if nexts[s] < len(orders[s])]
    if stuck:
        raise BadInputError(f"schedule {plan.schedule!r} blocks: stages {stuck} wait for one another")
    return Pass(work=tuple(work), ends_ms=tuple(clocks), last_backward_ms=tuple(last))


class Posts:
    """What one replica's stages have sent one another: per boundary and direction, arrivals in micro-batch order.

    Every boundary has a queue of its own in each direction, on the long link too.
    """

    def __init__(self, plan: Plan, replica: Replica) -> None:
        wires = [find_wire(plan.wires, send.wire) for send in replica.sends]
        self.sends = replica.sends
        self.down = [Queue(wire) for wire in wires]
        self.up = [Queue(wire) for wire in wires]
        self.activations: list[list[float]] = [[] for _ in wires]
        self.gradients: list[list[float]] = [[] for _ in wires]

    def arrival_ms(self, kind: str, stage: int, microbatch: int) -> float | None:
        """Tell when the input of a piece of work arrives; None while it has not been sent."""
        if kind == FORWARD:
            if stage == 0:
                return 0.0
            inbox = self.activations[stage - 1]
        else:
            if stage == len(self.sends):
                return 0.0
            inbox = self.gradients[stage]
        return inbox[microbatch] if microbatch < len(inbox) else None

    def send(self, kind: str, stage: int, ready_ms: float) -> int | None:
        """Send on what a piece of work made, never blocking the sender; answers the stage that it goes to, if any."""
        if kind == FORWARD and stage < len(self.sends):
            served = self.down[stage].serve(ready_ms, self.sends[stage].payload_bytes)
            self.activations[stage].append(served.end_ms)
            return stage + 1
        if kind == BACKWARD and stage > 0:
            served = self.up[stage - 1].serve(ready_ms, self.sends[stage - 1].payload_bytes)
            self.gradients[stage - 1].append(served.end_ms)
            return stage - 1
        return None


def moved(kind: str, exchange: Exchange, ready_ms: float, served: Served) -> Moved:
    """Record one transfer of an exchange."""
    return Moved(
        kind=kind,
        unit=exchange.unit,
        wire=exchange.wire,
        members=exchange.members,
        ready_ms=ready_ms,
        start_ms=served.start_ms,
        end_ms=served.end_ms,
    )


def rebased(transfer: Moved, begin_ms: float) -> Moved:
    """Count a transfer's times from the step's beginning."""
    return replace(
        transfer,
        ready_ms=transfer.ready_ms - begin_ms,
        start_ms=transfer.start_ms - begin_ms,
        end_ms=transfer.end_ms - begin_ms,
    )


def listed_ops(plan: Plan, passes: Sequence[Pass], begin_ms: float, updated: bool) -> tuple[Op, ...]:
    """List every replica's work, times from the step's beginning; updates lead where a step came before."""
    ops = []
    for r, (replica, run) in enumerate(zip(plan.replicas, passes, strict=True)):
        for s, stage in enumerate(replica.stages):
            if updated and stage.update_ms > 0:
                ops.append(Op(replica=r, stage=s, kind=UPDATE, microbatch=-1, start_ms=0.0, end_ms=stage.update_ms))
        for s, kind, microbatch, start, end in run.work:
            start_ms, end_ms = start - begin_ms, end - begin_ms
            ops.append(Op(replica=r, stage=s, kind=kind, microbatch=microbatch, start_ms=start_ms, end_ms=end_ms))
    return tuple(ops)


def busy_shares(plan: Plan, step_ms: float, updated: bool) -> tuple[tuple[float, ...], ...]:
    """Share of a step that each stage computes."""
    return tuple(
        tuple(
            work_ms(stage, replica.microbatches, updated) / step_ms if step_ms > 0 else 1.0 for stage in replica.stages
        )
        for replica in plan.replicas
    )


def work_ms(stage: Stage, microbatches: int, updated: bool = True) -> float:
    """Sum up what a stage computes in one step, waiting left out."""
    return microbatches * (stage.forward_ms + stage.backward_ms) + (stage.update_ms if updated else 0.0)


def mean(values: Sequence[float]) -> float:
    """Average of at least one value."""
    return sum(values) / len(values)
