"""Chooses replicas, how many of each, and their micro-batches, for the least time of a step.

Under a limit on the gradients that a stage may hold, a linear program over kinds of replicas, priced as needed, gives
the least time with fractional replicas; an integer program over the replicas found gives whole ones. Limits are halved
in on, best first, over choices of classes and least TP degrees. Must not know files, networks or classes' names.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix_price import Pricer
from argosy.plan.mix_single import alike
from argosy.plan.mix_store import Column, Columns, Kind, Store
from argosy.plan.mix_sync import Floors, levels, sync_s
from argosy.plan.mix_tables import Choice, Floats, MixProblem, Sums, Template

# Rounds of pricing under one limit, corrections of the step's time in each, and where both stop.
ROUNDS_MAX, CORRECTIONS_MAX, CLOSE = 4, 6, 1e-4
# Linear programs in all, in a row over the same choices of floors, and replicas in one.
RELAXED_MAX, WAVE_MAX, LP_COLUMNS_MAX = 48, 20, 300
# What can't be better than the best by more than this is not looked into.
NEAR = 0.997
# Replicas that whole ones are chosen from, and how much longer than the relaxed step theirs may be.
POOL_MAX, MUCH_LONGER = 80, 1.4
# Kinds of replicas that are cut anew for whole micro-batches, and for how many times.
CUT_ANEW, CUT_TIMES = 8, 4
HALVINGS, DOUBLINGS, NODES_MAX = 8, 12, 200
# How much slower than the best in three phases a plan may be to be taken for the ring's sake.
HARDLY_SLOWER = 1.005
# How much slower than the best mix one of replicas that are all alike may be to be looked for.
ALIKE_SLOWER = 1.1
# The same where no other mix was found, of a replica that does everything in one place without messages.
ANY_SLOWER = 10.0
SUMS: tuple[Sums, Sums] = ("one_ring", "three_phases")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPart:
    """So many replicas of one kind, each with so many micro-batches a step."""

    template: Template
    replicas: int
    microbatches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The plan: its parts, seconds of a step (compute and messages), and of summing gradients by each rule."""

    parts: tuple[MixPart, ...]
    compute_s: float
    one_ring_s: float
    three_phases_s: float

    def step_s(self, sums: Sums) -> float:
        """Give the time of a step if gradients are summed by this rule."""
        return self.compute_s + (self.one_ring_s if sums == "one_ring" else self.three_phases_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixes:
    """The fastest mix found by each rule.

    robust: hardly slower than the best in three phases, and of those the best with one ring.
    """

    one_ring: Mix
    three_phases: Mix
    robust: Mix


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relaxed:
    """A solution with fractional replicas under one limit, and the prices of chips by class that go with it."""

    limits: tuple[Floats, ...]
    seconds: float
    sync: float
    prices: Floats
    pool: tuple[int, ...]


@dataclass(order=True, slots=True)
class _Interval:
    """Levels after `low` up to `high`, none of them solved, which can't be better than the bound."""

    bound_s: float
    number: int
    low: int = field(compare=False)
    high: int = field(compare=False)
    floors: Floors = field(compare=False)
    steps: Sequence[tuple[float, Floats]] = field(compare=False)
    seconds: float = field(compare=False)


def plan_mix(problem: MixProblem, sums: Sums = "one_ring") -> Mix:
    """Find the fastest mix if gradients are summed by this rule; an error when nothing fits."""
    check(problem)
    store = Store(problem)
    found = _Search(store, sums).explore() or _any_alike(problem)
    return _best(found, sums, store)


def plan_mixes(problem: MixProblem) -> Mixes:
    """Find the fastest mix by each rule, and one that is good by both."""
    check(problem)
    store = Store(problem)
    found = _Search(store, "one_ring").explore()
    found += _Search(store, "three_phases", found).explore()
    found = found or _any_alike(problem)
    one_ring, three_phases = (_best(found, sums, store) for sums in SUMS)
    near = [m for m in found if m.step_s("three_phases") <= HARDLY_SLOWER * three_phases.step_s("three_phases")]
    return Mixes(one_ring=one_ring, three_phases=three_phases, robust=min(near, key=lambda mix: mix.step_s("one_ring")))


def plan_alike(problem: MixProblem, near: Mix) -> Mix:
    """Find the fastest mix of which all replicas are alike, with one ring; a mix found before sets how far to look."""
    found = _alike(problem, near.step_s("one_ring") * ALIKE_SLOWER)
    return min([*found, near] if len(near.parts) == 1 else found or [near], key=lambda mix: mix.step_s("one_ring"))


def _any_alike(problem: MixProblem) -> list[Mix]:
    """Find mixes of replicas that are all alike, however slow: all there is where no class holds a whole replica."""
    longest_s = max(float(table.layer_s.sum(axis=1).max()) / table.microbatch_size for table in problem.tables)
    return _alike(problem, ANY_SLOWER * problem.batch * longest_s)


def _alike(problem: MixProblem, beat_s: float) -> list[Mix]:
    """Give mixes of as few replicas of one kind as do with their micro-batches: shorter rings."""
    store = Store(problem)
    store.add(alike(problem, beat_s))
    if not store.columns:
        return []
    arrays = store.arrays()
    uses = np.where(arrays.chips > 0, arrays.chips, 1e-9)
    most = np.floor(np.where(arrays.chips > 0, np.array(problem.counts) / uses, np.inf).min(axis=1))
    counts = np.ceil(problem.batch / (arrays.size * most))
    replicas = np.ceil(problem.batch / (arrays.size * counts))
    times = arrays.fill_s + (counts - 1) * arrays.slowest_s
    rows = zip(store.columns, replicas, times, strict=True)
    return [_mix(problem, [(column, int(number))], float(seconds) * (1 + 1e-12)) for column, number, seconds in rows]


def check(problem: MixProblem) -> None:
    """Refuse a pool without chips, a batch of nothing, or no tables."""
    if problem.batch < 1 or not problem.tables or min(problem.counts, default=0) < 0 or not sum(problem.counts):
        raise BadInputError(
            f"a mix needs chips, tables and a batch of at least 1; got chips {problem.counts}, "
            f"{len(problem.tables)} tables, batch {problem.batch}"
        )


def _best(found: Sequence[Mix], sums: Sums, store: Store) -> Mix:
    if found:
        return min(found, key=lambda mix: mix.step_s(sums))
    if store.columns:
        raise NeverFitsError("no whole number of replicas trains the batch; give the job more chips or a smaller batch")
    raise NeverFitsError(
        "no replica fits: even split over all stages and tensor-parallel degrees that were measured, some layer "
        "needs more memory than its chip has, or the pool has too few chips"
    )


class _Search:
    """The mixes found so far, and the linear program's last prices and time, from which the next limit starts."""

    def __init__(self, store: Store, sums: Sums, known: Sequence[Mix] = ()) -> None:
        self.problem, self.store, self.sums = store.problem, store, sums
        self.pricers = [Pricer(self.problem, table) for table in self.problem.tables]
        self.counts = np.array(self.problem.counts, dtype=float)
        speeds = self._speeds()
        self.prices = np.maximum(self.problem.batch * speeds / float(self.counts @ speeds), 1e-12)
        self.seconds = 1.5 * self.problem.batch / float(self.counts @ speeds)
        self.solved, self.pushed = 0, 0
        self.waiting: list[_Interval] = []
        self.found: list[Mix] = []
        best = min(known, key=lambda mix: mix.step_s(sums), default=None)
        self.best_s = best.step_s(sums) if best else np.inf
        self.best_floors = _floors(self.problem, best) if best else ()

    def _speeds(self) -> Floats:
        """Give by class the samples that a chip trains in a second at best, whole models in one place."""
        speeds = np.zeros(len(self.counts))
        for table in self.problem.tables:
            each = table.microbatch_size / (table.layer_s.sum(axis=1) * table.degrees)
            np.maximum.at(speeds, table.classes, each)
        return np.asarray(np.maximum(speeds, 1e-9 * speeds.max()))

    def explore(self) -> list[Mix]:
        """Solve relaxations, best bound first, for every choice of classes and floors; give the mixes on the way."""
        seen: set[Floors] = set()
        asked = _families(self.problem)
        while asked:
            for floors in asked:
                seen.add(floors)
                steps = levels(self.problem, floors, self.sums)
                self._level(floors, steps, 0, len(steps) - 1)
            self._descend(self.solved + WAVE_MAX)
            asked = [floors for floors in self._neighbours() if floors not in seen]
        return self.found

    def _descend(self, solved_max: int) -> None:
        """Solve waiting intervals in the middle until none may hold a better step."""
        while self.waiting and self.solved < min(solved_max, RELAXED_MAX):
            item = heapq.heappop(self.waiting)
            if item.bound_s >= self.best_s * NEAR:
                break
            middle = (item.low + item.high + 1) // 2
            self._wait(item.floors, item.steps, item.low, middle - 1, item.seconds)
            self._level(item.floors, item.steps, middle, item.high)

    def _neighbours(self) -> list[Floors]:
        """Where classes sum apart: the best choice of floors with another one for one class."""
        if self.sums == "one_ring" or self.solved >= RELAXED_MAX:
            return []
        return [
            (*self.best_floors[:index], tp, *self.best_floors[index + 1 :])
            for index, floor in enumerate(self.best_floors)
            for tp in _degrees(self.problem, index)
            if floor and tp != floor
        ]

    def _level(self, floors: Floors, steps: Sequence[tuple[float, Floats]], level: int, high: int) -> None:
        """Solve one level, make it whole if it may be better than the best, and let the tighter ones wait."""
        self.solved += 1
        relaxed = self._relax(floors, steps[level][1])
        if relaxed is None:
            return
        if relaxed.seconds + relaxed.sync < self.best_s * NEAR:
            mix = self._whole(relaxed)
            if mix is not None:
                self.found.append(mix)
                if mix.step_s(self.sums) < self.best_s:
                    self.best_s, self.best_floors = mix.step_s(self.sums), _floors(self.problem, mix)
        self._wait(floors, steps, level, high, relaxed.seconds)

    def _wait(self, floors: Floors, steps: Sequence[tuple[float, Floats]], low: int, high: int, seconds: float) -> None:
        if high > low:
            self.pushed += 1
            bound_s = seconds + steps[high][0]
            heapq.heappush(self.waiting, _Interval(bound_s, self.pushed, low, high, floors, steps, seconds))

    def _relax(self, floors: Floors, most: Floats) -> _Relaxed | None:
        """Solve with fractional replicas whose stages hold no more; None if nothing fits."""
        limits = tuple(self._most(pricer, floors, most) for pricer in self.pricers)
        pool = [n for n in self.store.within(floors, most) if (self.store.columns[n].chips <= self.counts).all()]
        amounts: Floats | None = None
        cut: set[tuple[Choice, ...]] = set()
        for _ in range(ROUNDS_MAX):
            before, known = self.seconds, set(pool)
            kinds = [
                kind
                for pricer, limit in zip(self.pricers, limits, strict=True)
                for kind in pricer.best(self.prices, self.seconds, limit)
            ]
            used = [] if amounts is None else [n for n, x in zip(pool, amounts, strict=True) if x > 1e-6]
            for choices in dict.fromkeys(self.store.columns[number].template.choices for number in used):
                if choices not in cut:
                    cut.add(choices)
                    kinds += self._cuts(choices, limits, [self.seconds])
            fresh = [number for number in dict.fromkeys(self.store.add(kinds)) if number not in known]
            fresh = [number for number in fresh if (self.store.columns[number].chips <= self.counts).all()]
            if not pool and not fresh:
                self.seconds *= 2
                continue
            pool = self._nearest([*pool, *fresh])
            amounts = self._solve(self.store.arrays().some(pool))
            if amounts is None or not fresh or abs(self.seconds / before - 1) <= CLOSE:
                break
        if amounts is None:
            return None
        parts = [
            (self.store.columns[number].template, max(1, round(float(amount))))
            for number, amount in zip(pool, amounts, strict=True)
            if amount > 1e-6
        ]
        sync = sum(sync_s(self.problem, parts, self.sums))
        return _Relaxed(limits=limits, seconds=self.seconds, sync=sync, prices=self.prices.copy(), pool=tuple(pool))

    def _most(self, pricer: Pricer, floors: Floors, most: Floats) -> Floats:
        """Give by choice of a table the weights that a stage may hold; less than nothing where it may not be."""
        lowest = np.array(floors)[pricer.table.classes]
        allowed = (lowest > 0) & (pricer.table.degrees >= lowest)
        return np.where(allowed, most[pricer.table.classes] * (1 + 1e-9), -1.0)

    def _nearest(self, pool: list[int]) -> list[int]:
        """Keep the replicas that are worth most for their price."""
        if len(pool) <= LP_COLUMNS_MAX:
            return pool
        excess = self.store.arrays().some(pool).excess(self.seconds, self.prices)
        return [pool[int(index)] for index in np.argsort(-excess, kind="stable")[:LP_COLUMNS_MAX]]

    def _solve(self, pool: Columns) -> Floats | None:
        """Find the least time in which the batch is trained; None if nothing can be done."""
        self.seconds = max(self.seconds, float(pool.fill_s.min()) * (1 + 1e-9))
        amounts = None
        for _ in range(CORRECTIONS_MAX):
            worth = pool.worth(self.seconds)
            solved = linprog(-worth, A_ub=pool.chips.T, b_ub=self.counts, method="highs")
            if -solved.fun <= 0:
                return None
            amounts = np.asarray(solved.x)
            self.prices = np.maximum(-solved.ineqlin.marginals, 1e-12)
            rates = np.where(worth > 0, pool.size / pool.slowest_s, 0.0)
            correct_s = (self.problem.batch + solved.fun) / float(amounts @ rates)
            least_s = float(pool.fill_s[worth > 0].min()) * (1 + 1e-9)
            before, self.seconds = self.seconds, max(self.seconds + correct_s, least_s)
            if abs(self.seconds - before) <= CLOSE * before:
                break
        return amounts

    def _whole(self, relaxed: _Relaxed) -> Mix | None:
        """Find whole replicas near a relaxed solution: the least time in which they train the batch; None if none."""
        low_s = relaxed.seconds
        high_s = min(low_s * MUCH_LONGER, self.best_s - relaxed.sync)
        pool = self._near(relaxed, high_s)
        arrays, best = self.store.arrays().some(pool), None
        for _ in range(DOUBLINGS):
            # Until something whole is known, even a much longer step will do.
            if np.isfinite(self.best_s) or self._integer(arrays, high_s, relaxed.prices) is not None:
                break
            high_s *= 2
        seconds = high_s
        for _ in range(HALVINGS):
            amounts = self._integer(arrays, seconds, relaxed.prices)
            if amounts is None:
                low_s = seconds
            else:
                used = [(self.store.columns[n], int(x)) for n, x in zip(pool, amounts, strict=True) if x > 0]
                best = _mix(self.problem, used, seconds)
                high_s = min(seconds, best.compute_s)
            if best is None or high_s <= low_s * (1 + CLOSE):
                break
            seconds = (low_s + high_s) / 2
        return best

    def _near(self, relaxed: _Relaxed, longest_s: float) -> list[int]:
        """Give the replicas worth nearly their price, cut also for whole micro-batches."""
        excess = self.store.arrays().some(relaxed.pool).excess(relaxed.seconds, relaxed.prices)
        ranked = [relaxed.pool[int(index)] for index in np.argsort(-excess, kind="stable")]
        times = [float(time) for time in np.linspace(relaxed.seconds, longest_s, CUT_TIMES)]
        kinds: list[Kind] = []
        for choices in list(dict.fromkeys(self.store.columns[n].template.choices for n in ranked))[:CUT_ANEW]:
            kinds += self._cuts(choices, relaxed.limits, times)
        return list(dict.fromkeys([*ranked, *self.store.add(kinds)]))

    def _cuts(self, choices: tuple[Choice, ...], limits: Sequence[Floats], times: Sequence[float]) -> list[Kind]:
        """Cut layers for these choices at every size of micro-batch that they were measured with."""
        return [
            kind
            for pricer, limit in zip(self.pricers, limits, strict=True)
            if set(choices) <= set(pricer.table.choices)
            for kind in pricer.cuts(choices, limit, times)
        ]

    def _integer(self, pool: Columns, seconds: float, prices: Floats) -> Floats | None:
        """Give whole replicas, by the pool's order, that train the batch in so many seconds; None if none are found."""
        worth = pool.whole(seconds)
        keep = np.argsort(-worth / (pool.chips @ prices), kind="stable")[:POOL_MAX]
        keep = keep[worth[keep] > 0]
        if not len(keep):
            return None
        # Any replicas that train the batch do: the solver stops at the first.
        solved = milp(
            np.zeros(len(keep)),
            constraints=LinearConstraint(
                np.vstack([pool.chips[keep].T, -worth[keep]]), ub=[*self.counts, -self.problem.batch]
            ),
            integrality=np.ones(len(keep)),
            bounds=Bounds(0, np.inf),
            options={"node_limit": NODES_MAX},
        )
        if solved.x is None:
            return None
        amounts = np.zeros(len(worth))
        amounts[keep] = np.round(solved.x)
        return amounts if worth @ amounts >= self.problem.batch else None


def _mix(problem: MixProblem, used: Sequence[tuple[Column, int]], seconds: float) -> Mix:
    """Make a mix of whole replicas; the slowest kind gives up micro-batches that the batch doesn't need."""
    counts = [column.microbatches(seconds) for column, _ in used]
    sizes = [column.template.microbatch_size * replicas for column, replicas in used]
    spare = sum(count * size for count, size in zip(counts, sizes, strict=True)) - problem.batch
    for _ in range(sum(counts)):
        slowest = max(range(len(used)), key=lambda index: used[index][0].pace.step_s(counts[index]))
        if spare < sizes[slowest] or counts[slowest] <= 1:
            break
        counts[slowest] -= 1
        spare -= sizes[slowest]
    parts = [(column.template, replicas) for column, replicas in used]
    return Mix(
        parts=tuple(
            MixPart(template=template, replicas=replicas, microbatches=count)
            for count, (template, replicas) in zip(counts, parts, strict=True)
        ),
        compute_s=max(column.pace.step_s(count) for count, (column, _) in zip(counts, used, strict=True)),
        one_ring_s=sum(sync_s(problem, parts, "one_ring")),
        three_phases_s=sum(sync_s(problem, parts, "three_phases")),
    )


def _families(problem: MixProblem) -> list[Floors]:
    """List which classes are used and the smallest TP degree of each: one degree for all, or the next that it has."""
    degrees = [_degrees(problem, index) for index in range(len(problem.counts))]
    usable = [bool(count) and bool(each) for count, each in zip(problem.counts, degrees, strict=True)]
    families: dict[Floors, None] = {}
    for used in product(*((True, False) if able else (False,) for able in usable)):
        for least in sorted({tp for each, able in zip(degrees, used, strict=True) if able for tp in each}):
            floors = [
                next((tp for tp in each if tp >= least), 0) if able else 0
                for each, able in zip(degrees, used, strict=True)
            ]
            if [bool(floor) for floor in floors] == list(used):
                families[tuple(floors)] = None
    return list(families)


def _floors(problem: MixProblem, mix: Mix) -> Floors:
    """Give by class the smallest TP degree that a mix uses; 0 where it has none."""
    choices = [choice for part in mix.parts for choice in part.template.choices]
    return tuple(
        min((c.tp for c in choices if c.chip_class == index), default=0) for index in range(len(problem.counts))
    )


def _degrees(problem: MixProblem, chip_class: int) -> list[int]:
    return sorted({c.tp for table in problem.tables for c in table.choices if c.chip_class == chip_class})
