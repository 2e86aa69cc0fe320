"""Event-level timeline of a plan: when every forward, backward, exchange and update of a step begins and ends.

Follows docs/plan.md ("The rules of a step") to the letter; the trainer's emulated clock follows the same rules with
real arithmetic in between. Exchanges are timed unit by unit, though small units travel in buckets
(Plan.bucket_bytes). Times what it is given: it must not know chips, FLOPs or what would be better.
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Gather, Plan, Replica, Stage
from argosy.network.exchanges import (
    Run,
    gather_runs,
    gradient_delays_ms,
    runs_of,
    serve_gather_runs,
    serve_runs,
)
from argosy.network.wires import Served
from argosy.plan.timing.check import check_plan
from argosy.plan.timing.passes import passage
from argosy.plan.timing.walk import Passage, pipeline_of, walk

UPDATE = "U"
# More forwards and backwards than this are not listed.
OPS_MAX = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One piece of work of one stage. Times count from the barrier before.

    kind: F, B, W (zero-bubble's gradients of weights) or U: the update of all stages of a place, told of the first,
    microbatch -1.
    """

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

    barriers_ms: absolute times of every step's closing barrier; step_ms: between the last two. busy[r][place]: share of
    the step that a place, with all its stages, computes. bubble: idle share of the mean place. exposed_ms: what the
    last exchange adds after the last backward.
    """

    step_ms: float
    barriers_ms: tuple[float, ...]
    ops: tuple[Op, ...]
    moved: tuple[Moved, ...]
    busy: tuple[tuple[float, ...], ...]
    bubble: float
    exposed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step's walk; times from the barrier before. updated: whether it began with an update.

    gathers, exchanges: when each was ready, and how it was served, run by run and unit by unit.
    """

    passes: tuple[Passage, ...]
    gathers: Sequence[tuple[float, Served]]
    exchanges: Sequence[tuple[float, Served]]
    computed_ms: float
    exchanged_ms: float
    step_ms: float
    updated: bool


def simulate(plan: Plan, steps: int = 3, detail: bool = True, listed: Collection[int] | None = None) -> Timeline:
    """Time a plan over a few steps; the last one is what the Timeline shows.

    From the second step on all steps are alike, for each begins with every clock at the same barrier. detail: list the
    ops too, one for every forward and backward. listed: of these replicas; of all unless given. Raises BadInputError
    for a plan that can't run.
    """
    check_plan(plan)
    if steps < 1:
        raise BadInputError(f"steps {steps}; a timeline needs at least 1")
    wanted = range(len(plan.replicas)) if listed is None else listed
    detailed = frozenset(wanted if detail else ())
    check_length(plan, detailed)
    rules = Rules(plan, detailed)
    first = rules.first()
    shown = first if steps == 1 else rules.later()
    ends = tuple(first.step_ms + index * shown.step_ms for index in range(steps))
    return described(plan, shown, ends, detailed, rules.moved(shown))


def steady(plan: Plan) -> Timeline:
    """Time a step that follows others, without its ops; barriers_ms counts from the barrier before."""
    check_plan(plan)
    rules = Rules(plan, frozenset())
    shown = rules.later()
    return described(plan, shown, (shown.step_ms,), frozenset(), rules.moved(shown))


def sketched(plan: Plan, runs: Sequence[Run]) -> Timeline:
    """Time a step that follows others of a legal plan whose exchanges come in runs, not in the plan.

    Neither ops nor what is moved are listed: it is made for drafts of which hundreds are timed.
    """
    shown = Rules(plan, frozenset(), runs).later()
    return described(plan, shown, (shown.step_ms,), frozenset(), ())


def check_length(plan: Plan, listed: Collection[int]) -> None:
    """Refuse to list more work than anybody could look at."""
    kinds = 3 if plan.schedule == "zero-bubble" else 2
    ops = sum(kinds * plan.replicas[r].microbatches * len(plan.replicas[r].stages) for r in listed)
    if ops > OPS_MAX:
        raise BadInputError(
            f"the plan's step has {ops:,} forwards and backwards, more than a timeline lists ({OPS_MAX:,}); "
            "a smaller train.global_batch_size has fewer"
        )


def described(
    plan: Plan, step: Step, barriers_ms: tuple[float, ...], listed: Collection[int], moved: tuple[Moved, ...]
) -> Timeline:
    """Make the timeline of a step."""
    busy = busy_shares(plan, step.step_ms, step.updated)
    return Timeline(
        step_ms=step.step_ms,
        barriers_ms=barriers_ms,
        ops=listed_ops(plan, step.passes, step.updated, listed),
        moved=moved,
        busy=busy,
        bubble=1 - mean([share for row in busy for share in row]),
        exposed_ms=max(0.0, step.exchanged_ms - step.computed_ms),
    )


class Rules:
    """The rules of a step, applied to one plan, times from the barrier that began it.

    listed: whose work is wanted. runs: the exchanges, where the plan does not list them.
    """

    def __init__(self, plan: Plan, listed: Collection[int], runs: Sequence[Run] | None = None) -> None:
        self.plan = plan
        self.listed = listed
        self.runs = runs_of(plan) if runs is None else runs
        self.gathered = gather_runs(self.runs)
        known = {id(stage): stage for replica in plan.replicas for stage in replica.stages} if self.runs else {}
        self.delays = {key: gradient_delays_ms(plan, stage) for key, stage in known.items()}

    def first(self) -> Step:
        """Time the very first step: no update came before it."""
        return self.step([(0.0,) * len(self.plan.places(replica)) for replica in self.plan.replicas], [], updated=False)

    def later(self) -> Step:
        """Time any step after the first."""
        begins, gathers = self.update()
        return self.step(begins, gathers, updated=True)

    def step(
        self, begins: Sequence[tuple[float, ...]], gathers: Sequence[tuple[float, Served]], *, updated: bool
    ) -> Step:
        """Time a step from each place's clock on."""
        passes = self.passes(begins)
        exchanges = self.exchanges(passes)
        computed_ms = max(max(run.ends_ms) for run in passes)
        exchanged_ms = max((served.end_ms for _, served in exchanges), default=computed_ms)
        return Step(
            passes=tuple(passes),
            gathers=gathers,
            exchanges=exchanges,
            computed_ms=computed_ms,
            exchanged_ms=exchanged_ms,
            step_ms=max(computed_ms, exchanged_ms) + self.plan.barrier_ms,
            updated=updated,
        )

    def passes(self, begins: Sequence[tuple[float, ...]]) -> list[Passage]:
        """Run forwards and backwards of every replica; equal replicas that begin alike are run once."""
        alike: dict[tuple[object, ...], Passage] = {}
        same: dict[tuple[object, ...], Passage] = {}
        result = []
        for index, (replica, begin) in enumerate(zip(self.plan.replicas, begins, strict=True)):
            run = walk if index in self.listed else passage
            # Like replicas are mostly one object, which is found faster than an equal one.
            key = (run, id(replica), begin)
            if key not in same:
                pipeline = pipeline_of(self.plan, replica)
                if (run, pipeline, begin) not in alike:
                    alike[run, pipeline, begin] = run(pipeline, begin)
                same[key] = alike[run, pipeline, begin]
            result.append(same[key])
        return result

    def exchanges(self, passes: Sequence[Passage]) -> list[tuple[float, Served]]:
        """Serve the gradient exchanges, each ready when its last member is."""
        ready = [self.ready_ms(run, passes) for run in self.runs]
        served = serve_runs(self.plan, self.runs, ready)
        return list(zip(itertools.chain.from_iterable(ready), served, strict=True))

    def ready_ms(self, run: Run, passes: Sequence[Passage]) -> list[float]:
        """Tell when each unit of a run of exchanges is ready on all members."""
        exchange, units = run
        members = [
            (passes[r].last_ms[s], self.delays[id(self.plan.replicas[r].stages[s])]) for r, s in exchange.members
        ]
        return [max([last_ms + delays[unit] for last_ms, delays in members]) for unit in units]

    def update(self) -> tuple[list[tuple[float, ...]], list[tuple[float, Served]]]:
        """Leave the barrier: update, then gather what was sharded. Answers each place's clock and what was gathered."""
        clocks = [list(updates_ms(self.plan, replica)) for replica in self.plan.replicas]
        ready = [max(clocks[r][s % len(clocks[r])] for r, s in gather.members) for gather, _ in self.gathered]
        served = serve_gather_runs(self.plan, self.gathered, ready)
        ends = iter(served)
        for gather, units in self.gathered:
            last_ms = max(end.end_ms for end in itertools.islice(ends, len(units)))
            for r, s in gather.members:
                place = s % len(clocks[r])
                clocks[r][place] = max(clocks[r][place], last_ms)
        times = (ready_ms for ready_ms, (_, units) in zip(ready, self.gathered, strict=True) for _ in units)
        return [tuple(row) for row in clocks], list(zip(times, served, strict=True))

    def moved(self, step: Step) -> tuple[Moved, ...]:
        """Record what a step moved: gathers, then exchanges."""
        gathers = [(unit, gather) for gather, units in self.gathered for unit in units] if step.updated else []
        exchanges = [(unit, exchange) for exchange, units in self.runs for unit in units]
        return (
            *(moved("gather", *what, *how) for what, how in zip(gathers, step.gathers, strict=True)),
            *(moved("exchange", *what, *how) for what, how in zip(exchanges, step.exchanges, strict=True)),
        )


def updates_ms(plan: Plan, replica: Replica) -> tuple[float, ...]:
    """Time the optimizer's step of each place: that of all its stages."""
    places = len(plan.places(replica))
    return tuple(sum(stage.update_ms for stage in replica.stages[place::places]) for place in range(places))


def moved(kind: str, unit: int, what: Exchange | Gather, ready_ms: float, served: Served) -> Moved:
    """Record one exchange or gather."""
    return Moved(
        kind=kind,
        unit=unit,
        wire=what.wire,
        members=what.members,
        ready_ms=ready_ms,
        start_ms=served.start_ms,
        end_ms=served.end_ms,
    )


def listed_ops(plan: Plan, passes: Sequence[Passage], updated: bool, listed: Collection[int]) -> tuple[Op, ...]:
    """List replicas' work, times from the step's beginning; updates lead where a step came before."""
    ops = []
    for r in sorted(listed):
        replica, run = plan.replicas[r], passes[r]
        for place, update_ms in enumerate(updates_ms(plan, replica)):
            if updated and update_ms > 0:
                ops.append(Op(replica=r, stage=place, kind=UPDATE, microbatch=-1, start_ms=0.0, end_ms=update_ms))
        for kind, s, microbatch, start_ms, end_ms in run.work:
            ops.append(Op(replica=r, stage=s, kind=kind, microbatch=microbatch, start_ms=start_ms, end_ms=end_ms))
    return tuple(ops)


def busy_shares(plan: Plan, step_ms: float, updated: bool) -> tuple[tuple[float, ...], ...]:
    """Share of a step that each place computes."""
    rows = []
    for replica in plan.replicas:
        places = len(plan.places(replica))
        works = [work_ms(stage, replica.microbatches, updated) for stage in replica.stages]
        rows.append(tuple(sum(works[p::places]) / step_ms if step_ms > 0 else 1.0 for p in range(places)))
    return tuple(rows)


def work_ms(stage: Stage, microbatches: int, updated: bool = True) -> float:
    """Sum up what a stage computes in one step, waiting left out."""
    return microbatches * (stage.forward_ms + stage.backward_ms) + (stage.update_ms if updated else 0.0)


def mean(values: Sequence[float]) -> float:
    """Average of at least one value."""
    return sum(values) / len(values)
