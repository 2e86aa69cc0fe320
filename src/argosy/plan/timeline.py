"""Event-level timeline of a plan: when every forward, backward, exchange and update of a step begins and ends.

Follows docs/plan.md ("The rules of a step") to the letter; the trainer's emulated clock follows the same rules with
real arithmetic in between. Exchanges are timed unit by unit, though small units travel in buckets
(Plan.bucket_bytes). Times what it is given: it must not know chips, FLOPs or what would be better.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Replica, Stage
from argosy.network.exchanges import gathered, gradient_delay_ms, serve_exchanges, serve_gathers
from argosy.network.wires import Queue, Served, find_wire, send_ms
from argosy.plan.check import check_plan
from argosy.plan.passes import passage
from argosy.plan.schedules import BACKWARD, FORWARD, stage_order

UPDATE = "U"
# More forwards and backwards than this are not listed.
OPS_MAX = 2_000_000


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

    work: (stage, kind, microbatch, start_ms, end_ms); empty where nobody wants it listed. ends_ms, last_backward_ms: by
    stage; when it is through, and when the backward of its last micro-batch began.
    """

    work: tuple[tuple[int, str, int, float, float], ...]
    ends_ms: tuple[float, ...]
    last_backward_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step's walk; times from the barrier before. updated: whether it began with an update."""

    passes: tuple[Pass, ...]
    gathers: tuple[Moved, ...]
    exchanges: tuple[Moved, ...]
    computed_ms: float
    exchanged_ms: float
    step_ms: float
    updated: bool


def simulate(plan: Plan, steps: int = 3, detail: bool = True) -> Timeline:
    """Time a plan over a few steps; the last one is what the Timeline shows.

    From the second step on all steps are alike, for each begins with every clock at the same barrier. detail: list the
    ops too (one for every forward and backward of every replica). Raises BadInputError for a plan that can't run.
    """
    check_plan(plan)
    if steps < 1:
        raise BadInputError(f"steps {steps}; a timeline needs at least 1")
    if detail:
        check_length(plan)
    walk = Walk(plan, detail)
    first = walk.first()
    shown = first if steps == 1 else walk.later()
    ends = tuple(first.step_ms + index * shown.step_ms for index in range(steps))
    return described(plan, shown, ends, detail)


def steady(plan: Plan) -> Timeline:
    """Time a step that follows others, without its ops; barriers_ms counts from the barrier before."""
    check_plan(plan)
    shown = Walk(plan, False).later()
    return described(plan, shown, (shown.step_ms,), False)


def check_length(plan: Plan) -> None:
    """Refuse to list more work than anybody could look at."""
    ops = sum(2 * replica.microbatches * len(replica.stages) for replica in plan.replicas)
    if ops > OPS_MAX:
        raise BadInputError(
            f"the plan's step has {ops:,} forwards and backwards, more than a timeline lists ({OPS_MAX:,}); "
            "a smaller train.global_batch_size has fewer"
        )


def described(plan: Plan, step: Step, barriers_ms: tuple[float, ...], detail: bool) -> Timeline:
    """Make the timeline of a step."""
    busy = busy_shares(plan, step.step_ms, step.updated)
    return Timeline(
        step_ms=step.step_ms,
        barriers_ms=barriers_ms,
        ops=listed_ops(plan, step.passes, step.updated) if detail else (),
        moved=(*step.gathers, *step.exchanges),
        busy=busy,
        bubble=1 - mean([share for row in busy for share in row]),
        exposed_ms=max(0.0, step.exchanged_ms - step.computed_ms),
    )


class Walk:
    """The rules of a step, applied to one plan, times from the barrier that began it. detail: list the work too."""

    def __init__(self, plan: Plan, detail: bool) -> None:
        self.plan = plan
        self.detail = detail
        self.gathered = gathered(plan)
        delays: dict[tuple[int, int], float] = {}
        self.delays = tuple(tuple(self.delay_ms(r, s, e.unit, delays) for r, s in e.members) for e in plan.exchanges)

    def first(self) -> Step:
        """Walk the very first step: no update came before it."""
        return self.step([[0.0] * len(replica.stages) for replica in self.plan.replicas], [], updated=False)

    def later(self) -> Step:
        """Walk any step after the first."""
        begins, gathers = self.update()
        return self.step(begins, gathers, updated=True)

    def step(self, begins: Sequence[Sequence[float]], gathers: Sequence[Moved], *, updated: bool) -> Step:
        """Walk a step from each stage's clock on."""
        passes = self.passes(begins)
        exchanges = self.exchanges(passes)
        computed_ms = max(max(run.ends_ms) for run in passes)
        exchanged_ms = max((e.end_ms for e in exchanges), default=computed_ms)
        return Step(
            passes=tuple(passes),
            gathers=tuple(gathers),
            exchanges=tuple(exchanges),
            computed_ms=computed_ms,
            exchanged_ms=exchanged_ms,
            step_ms=max(computed_ms, exchanged_ms) + self.plan.barrier_ms,
            updated=updated,
        )

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
                known[key] = run_replica(self.plan, replica, begin) if self.detail else timed(self.plan, replica, begin)
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

    def update(self) -> tuple[list[list[float]], list[Moved]]:
        """Leave the barrier: update, then gather what was sharded. Answers each stage's clock and what was gathered."""
        clocks = [[stage.update_ms for stage in replica.stages] for replica in self.plan.replicas]
        ready = [max(clocks[r][s] for r, s in exchange.members) for exchange in self.gathered]
        served = serve_gathers(self.plan, ready)
        for exchange, end in zip(self.gathered, served, strict=True):
            for r, s in exchange.members:
                clocks[r][s] = max(clocks[r][s], end.end_ms)
        return clocks, [moved("gather", e, r, s) for e, r, s in zip(self.gathered, ready, served, strict=True)]


def timed(plan: Plan, replica: Replica, begin: Sequence[float]) -> Pass:
    """Time one replica's forwards and backwards without listing them."""
    wires = [find_wire(plan.wires, send.wire) for send in replica.sends]
    found = passage(
        plan.schedule,
        tuple((stage.forward_ms, stage.backward_ms) for stage in replica.stages),
        tuple((send_ms(w, send.payload_bytes), w.one_way_ms) for w, send in zip(wires, replica.sends, strict=True)),
        replica.microbatches,
        tuple(begin),
    )
    return Pass(work=(), ends_ms=found.ends_ms, last_backward_ms=found.last_backward_ms)


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


def listed_ops(plan: Plan, passes: Sequence[Pass], updated: bool) -> tuple[Op, ...]:
    """List every replica's work, times from the step's beginning; updates lead where a step came before."""
    ops = []
    for r, (replica, run) in enumerate(zip(plan.replicas, passes, strict=True)):
        for s, stage in enumerate(replica.stages):
            if updated and stage.update_ms > 0:
                ops.append(Op(replica=r, stage=s, kind=UPDATE, microbatch=-1, start_ms=0.0, end_ms=stage.update_ms))
        for s, kind, microbatch, start_ms, end_ms in run.work:
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
