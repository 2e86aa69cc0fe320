"""Chooses replicas, how many of each, and their micro-batches, for the least time of a step.

For a limit on the time of summing gradients, a linear program over kinds of replicas, priced as needed, gives the least
time with fractional replicas; an integer program over the replicas found gives whole ones. The limit is lowered as far
as that helps. Must not know files, networks or what a class of chips is called.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix_columns import Column, Pricer, column_of, partitions
from argosy.plan.mix_sync import Part, byte_limits, heaviest_stages, ring_members, sync_s
from argosy.plan.mix_tables import Choice, Floats, MixProblem, Template

ROUNDS_MAX, SETTLE_MAX = 3, 6
LIMITS_MAX = 24
LIMIT_RATIO = 0.85
FIXED_POINT_ROUNDS = 3
# A solution whose sum takes little longer than its heaviest ring has nothing to gain from replicas that fit together.
ALIGNED = 1.03
TIGHTENED, TIGHTER_MAX = 4, 4
# How much worse than the best a relaxed solution may be to be followed, and to end the sweep.
NEAR, WORSE_MAX = 1.03, 1.15
# Relaxed solutions made whole, and those of them for which other replicas than their own are tried too.
TRIES, WIDE_TRIES = 12, 2
INTEGER_HALVINGS = 8
# How much longer than the relaxed step a whole one may be.
MUCH_LONGER = 1.4
POOL_MAX = 90
NEAREST = 8
# Replicas looked at, and taken, in a round of pricing from each table; how far the grid may understate their worth.
LOOKED_AT, FRESH_FIRST, FRESH = 16, 6, 3
GRID_ERROR = 0.12
SOLVER_S = 0.25
# The longest that a stage may last, of the last limit's step: replicas with two micro-batches or more need half.
LONGER = 0.75
CLOSE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPart:
    """So many replicas of one kind, each with so many micro-batches a step."""

    template: Template
    replicas: int
    microbatches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The plan: its parts, seconds of a step (compute and messages, sums inside classes, sums across classes).

    bound_s: the least that the linear relaxation reached at any limit.
    """

    parts: tuple[MixPart, ...]
    compute_s: float
    inside_s: float
    across_s: float
    bound_s: float

    @property
    def step_s(self) -> float:
        """Give the time of a step."""
        return self.compute_s + self.inside_s + self.across_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relaxed:
    limits: Floats
    seconds: float
    sync: tuple[float, float]
    parts: tuple[Part, ...]
    prices: Floats
    columns: tuple[Column, ...]

    @property
    def total_s(self) -> float:
        return self.seconds + sum(self.sync)


def plan_mix(problem: MixProblem) -> Mix:
    """Find the fastest mix; an error when nothing fits."""
    check(problem)
    search = _Search(problem)
    relaxed = search.sweep()
    if not relaxed:
        raise NeverFitsError(
            "no replica fits: even split over all stages and tensor-parallel degrees that were measured, some layer "
            "needs more memory than its chip has, or the pool has too few chips"
        )
    bound_s, best = min(found.total_s for found in relaxed), None
    for number, found in enumerate(_different(relaxed)[:TRIES]):
        for others in (False, True)[: 2 if number < WIDE_TRIES else 1]:
            if best is not None and found.total_s >= best.step_s:
                break
            mix = search.whole(found, bound_s, others, best.step_s if best else np.inf)
            if mix is not None and (best is None or mix.step_s < best.step_s):
                best = mix
                bound_s = min(bound_s, mix.step_s)
    if best is None:
        raise NeverFitsError("no whole number of replicas trains the batch; give the job more chips or a smaller batch")
    return replace(best, bound_s=bound_s)


def check(problem: MixProblem) -> None:
    """Refuse a pool without chips, a batch of nothing, or no tables."""
    if problem.batch < 1 or not problem.tables or min(problem.counts, default=0) < 0 or not sum(problem.counts):
        raise BadInputError(
            f"a mix needs chips, tables and a batch of at least 1; got chips {problem.counts}, "
            f"{len(problem.tables)} tables, batch {problem.batch}"
        )


class _Search:
    """The replicas found so far, and the linear program's last prices and time, from which the next limit starts."""

    def __init__(self, problem: MixProblem) -> None:
        self.problem = problem
        self.pricers = [Pricer(problem, table) for table in problem.tables]
        self.counts = np.array(problem.counts, dtype=float)
        self.columns: dict[Template, Column] = {}
        speeds = self._speeds()
        self.prices = np.maximum(problem.batch * speeds / float(self.counts @ speeds), 1e-12)
        self.seconds = 1.5 * problem.batch / float(self.counts @ speeds)
        self._widest = tuple(
            max((c.tp for table in problem.tables for c in table.choices if c.chip_class == index), default=1)
            for index in range(len(problem.counts))
        )
        self.tried: set[tuple[float, ...]] = set()

    def _speeds(self) -> Floats:
        """Give by class the samples that a chip trains in a second at best, whole models in one place."""
        speeds = np.zeros(len(self.counts))
        for table in self.problem.tables:
            each = table.microbatch_size / (table.layer_s.sum(axis=1) * table.degrees)
            np.maximum.at(speeds, table.classes, each)
        return np.asarray(np.maximum(speeds, 1e-9 * speeds.max()))

    def sweep(self) -> list[_Relaxed]:
        """Relax at limits on the sum's time from loose to tight, then step by step below the best ones."""
        problem = self.problem
        widest = max(int(table.degrees.max()) for table in problem.tables)
        total = float(problem.weights_before[-1]) / widest
        limit_s = max(
            problem.reduce_s(total, max(2, count // widest), c, c) for c, count in enumerate(problem.counts) if count
        )
        found: list[_Relaxed] = []
        for _ in range(LIMITS_MAX):
            latest = self.relax(self._limits(limit_s))
            found += latest
            limit_s *= LIMIT_RATIO
            if latest and latest[0].seconds > WORSE_MAX * min(item.total_s for item in found):
                break
        for start in _different(found)[:TIGHTENED]:
            self._tighten(found, start)
        return found

    def _limits(self, limit_s: float) -> Floats:
        """Give by class the bytes summed in so many seconds if pipelines of each class alone took all of its chips."""
        widest = np.array(self._widest, dtype=float)
        most = float(self.problem.batch)
        rings = np.clip(self.counts / widest, 2.0, max(2.0, most))
        for _ in range(FIXED_POINT_ROUNDS):
            limits = byte_limits(self.problem, limit_s, rings)
            stages = np.ceil(self.problem.weights_before[-1] / widest / np.maximum(limits, 1.0))
            rings = np.clip(self.counts / (widest * stages), 2.0, max(2.0, most))
        return limits

    def _tighten(self, found: list[_Relaxed], step: _Relaxed | None) -> None:
        """Forbid the heaviest stage of the class that sums longest, again and again while that doesn't lose much."""
        for _ in range(TIGHTER_MAX):
            if step is None or step.total_s > NEAR * min(item.total_s for item in found):
                return
            slowest = int(self._rings_s(step.parts).argmax())
            limits = step.limits.copy()
            limits[slowest] = heaviest_stages(self.problem, step.parts)[slowest] * (1 - 1e-9)
            key = tuple(np.round(limits, -3))
            if key in self.tried:
                return
            self.tried.add(key)
            self.prices, self.seconds = step.prices, step.seconds
            steps = self.relax(limits)
            found += steps
            step = steps[0] if steps else None

    def relax(self, limits: Floats) -> list[_Relaxed]:
        """Solve with fractional replicas whose stages sum at most so many bytes, by class; empty if nothing fits.

        A class's rings are as slow as their smallest TP degree, which the program doesn't see: solutions that keep a
        class to one degree stand beside the unrestricted one.
        """
        self._limit(limits)
        pool = [column for column in self.columns.values() if self._within(column, limits)]
        seen = {column.template for column in pool}
        cut: set[tuple[int, tuple[Choice, ...]]] = set()
        promising = set(self.pricers)
        for _ in range(ROUNDS_MAX):
            before = self.seconds
            asked = promising or set(self.pricers)
            promising = set()
            for pricer in (pricer for pricer in self.pricers if pricer in asked):
                for template in self._price(pricer, cut, FRESH if pool else FRESH_FIRST):
                    if template not in seen:
                        seen.add(template)
                        promising.add(pricer)
                        pool.append(self.columns.setdefault(template, column_of(self.problem, template)))
            if self._solve(pool) is None:
                return []
            if not promising and len(asked) == len(self.pricers) and abs(self.seconds / before - 1) <= CLOSE:
                break
        free = self._settle(pool, limits)
        if free is None:
            return []
        found = [free]
        aligned_s = float(self._rings_s(free.parts).max())
        narrower = list(self._restricted(pool, free)) if free.sync[0] > ALIGNED * aligned_s else []
        if sum(free.sync) > free.seconds:
            narrower += self._alone(pool)
        for kept in narrower:
            settled = self._settle(kept, limits)
            if settled is not None:
                found.append(settled)
        self.seconds, self.prices = free.seconds, free.prices
        return sorted(found, key=lambda item: item.total_s)

    def _rings_s(self, parts: Sequence[Part]) -> Floats:
        """Give by class the time of its heaviest stage's ring, if all rings were as long and nothing parted them."""
        sizes, members = heaviest_stages(self.problem, parts), ring_members(self.problem, parts)
        return np.array(
            [
                self.problem.reduce_s(float(size), round(count), c, c)
                for c, (size, count) in enumerate(zip(sizes, members, strict=True))
            ]
        )

    def _restricted(self, pool: Sequence[Column], free: _Relaxed) -> Iterator[list[Column]]:
        """Give parts of the pool whose replicas fit together: one TP degree a class, one class a replica."""
        sizes = {len(pool), 0}
        pure = [column for column in pool if len({c.chip_class for c in column.template.choices}) == 1]
        for floors in (self._usual_degrees(free.parts), self._widest, (0,) * len(self.counts)):
            for columns in (pool, pure):
                kept = [c for c in columns if all(x.tp >= floors[x.chip_class] for x in c.template.choices)]
                if len(kept) not in sizes:
                    sizes.add(len(kept))
                    yield kept

    def _alone(self, pool: Sequence[Column]) -> list[list[Column]]:
        """Give by class the replicas that use no other: where summing costs most, fewer chips may be faster."""
        of_class = [
            [column for column in pool if {c.chip_class for c in column.template.choices} == {chip_class}]
            for chip_class in range(len(self.counts))
        ]
        return [columns for columns in of_class if columns and len(columns) < len(pool)]

    def _settle(self, pool: Sequence[Column], limits: Floats) -> _Relaxed | None:
        """Solve over these replicas alone."""
        amounts = self._solve(pool)
        for _ in range(SETTLE_MAX):
            before = self.seconds
            amounts = self._solve(pool)
            if abs(self.seconds - before) <= CLOSE * self.seconds:
                break
        if amounts is None:
            return None
        used = [(column.template, amount) for column, amount in zip(pool, amounts, strict=True) if amount > 1e-6]
        parts = tuple((template, max(1, round(amount))) for template, amount in used)
        return _Relaxed(
            limits=limits,
            seconds=self.seconds,
            sync=sync_s(self.problem, parts),
            parts=parts,
            prices=self.prices.copy(),
            columns=tuple(pool),
        )

    def _usual_degrees(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """Give by class the TP degree that most of its chips work at; 1 where it has none."""
        chips: dict[tuple[int, int], int] = {}
        for template, replicas in parts:
            for choice in template.choices:
                key = (choice.chip_class, choice.tp)
                chips[key] = chips.get(key, 0) + replicas * choice.tp
        return tuple(
            max(((count, tp) for (of, tp), count in chips.items() if of == chip_class), default=(0, 1))[1]
            for chip_class in range(len(self.counts))
        )

    def _limit(self, limits: Floats) -> None:
        weights = self.problem.weights_before
        for pricer in self.pricers:
            first, end = pricer.table.spans
            bytes_each = (weights[end] - weights[first])[:, None] / pricer.table.degrees
            longest_s = LONGER * self.seconds if self.columns else np.inf
            pricer.limit(bytes_each <= limits[pricer.table.classes], longest_s)

    def _price(self, pricer: Pricer, cut: set[tuple[int, tuple[Choice, ...]]], fresh: int) -> Iterable[Template]:
        """Give replicas that may be worth more than their price; cut: what was given at these limits already."""
        for looked_at, (template, value) in enumerate(pricer.best(self.prices, self.seconds)):
            # The grid understates a replica's worth by up to its step.
            floor = -GRID_ERROR * float(self.prices @ self.problem.chips(template))
            if not fresh or looked_at >= LOOKED_AT or (value <= floor and cut):
                return
            key = (template.microbatch_size, template.choices)
            if key not in cut:
                cut.add(key)
                fresh -= 1
                yield template
                yield from partitions(pricer, template.choices, self.seconds)

    def _within(self, column: Column, limits: Floats) -> bool:
        weights, template = self.problem.weights_before, column.template
        return all(
            (weights[end] - weights[first]) / choice.tp <= limits[choice.chip_class]
            for first, end, choice in zip(template.starts, template.ends, template.choices, strict=True)
        )

    def _solve(self, pool: Sequence[Column]) -> Floats | None:
        """Train most samples in the time at hand, then correct the time by what lacks; None if nothing can be done."""
        if not pool:
            return None
        # No time is worth less than the first micro-batch of the quickest replica takes.
        self.seconds = max(self.seconds, min(column.pace.fill_s for column in pool) * (1 + 1e-9))
        worth = np.array([column.worth(self.seconds) for column in pool])
        uses = np.array([column.chips for column in pool]).T
        solved = linprog(-worth, A_ub=uses, b_ub=self.counts, method="highs")
        if -solved.fun <= 0:
            return None
        rates = np.array([column.template.microbatch_size / column.pace.slowest_s for column in pool])
        least_s = min(column.pace.fill_s for column in pool if column.worth(self.seconds) > 0)
        correct_s = (self.problem.batch + solved.fun) / float(solved.x @ np.where(worth > 0, rates, 0.0))
        self.seconds = max(self.seconds + correct_s, least_s * (1 + 1e-9))
        self.prices = np.maximum(-solved.ineqlin.marginals, 1e-12)
        return np.asarray(solved.x)

    def whole(self, relaxed: _Relaxed, bound_s: float, others: bool, beat_s: float) -> Mix | None:
        """Find whole replicas near a relaxed solution: the least time in which they train the batch.

        others: also replicas that it didn't use. They fill up chips, but may part the rings of layers. beat_s: the step
        that must be beaten; None if that looks impossible.
        """
        pool = self._near(relaxed, others)
        low_s, high_s = relaxed.seconds, min(relaxed.seconds * MUCH_LONGER, beat_s - sum(relaxed.sync))
        amounts = self._integer(pool, high_s)
        if amounts is None:
            return None
        best = (high_s, amounts)
        for _ in range(INTEGER_HALVINGS):
            seconds = (low_s + high_s) / 2
            amounts = self._integer(pool, seconds)
            if amounts is None:
                low_s = seconds
            else:
                best, high_s = (seconds, amounts), seconds
            if high_s <= low_s * (1 + CLOSE):
                break
        return self._mix(pool, best[1], best[0], bound_s)

    def _near(self, relaxed: _Relaxed, others: bool) -> list[Column]:
        """Give the replicas worth nearly their price, cut also for the whole micro-batches just below and above."""
        seconds, prices = relaxed.seconds, relaxed.prices

        def excess(column: Column) -> float:
            return column.worth(max(seconds, column.pace.fill_s)) / float(prices @ column.chips)

        own = {template.choices for template, _ in relaxed.parts}
        pool = {c.template: c for c in relaxed.columns if others or c.template.choices in own}
        kinds = {column.template.choices: column for column in sorted(pool.values(), key=excess)}
        nearest = sorted(kinds.values(), key=excess, reverse=True)[:NEAREST]
        self._limit(relaxed.limits)
        for pricer in self.pricers:
            for column in nearest:
                if not set(column.template.choices) <= set(pricer.table.choices):
                    continue
                count = _microbatches(column, seconds) * column.template.microbatch_size / pricer.table.microbatch_size
                whole = sorted({max(1, int(count)), int(count) + 1})
                for template in partitions(pricer, column.template.choices, seconds, whole):
                    pool.setdefault(template, column_of(self.problem, template))
        longest_s = seconds * MUCH_LONGER
        return sorted((c for c in pool.values() if c.worth(longest_s) > 0), key=excess, reverse=True)[:POOL_MAX]

    def _integer(self, pool: Sequence[Column], seconds: float) -> Floats | None:
        worth = np.array([column.template.microbatch_size * _microbatches(column, seconds) for column in pool])
        keep = np.flatnonzero(worth > 0)
        if not len(keep):
            return None
        uses = np.array([pool[int(index)].chips for index in keep]).T
        solved = milp(
            -worth[keep],
            constraints=LinearConstraint(uses, ub=self.counts),
            integrality=np.ones(len(keep)),
            bounds=Bounds(0, np.inf),
            options={"time_limit": SOLVER_S, "mip_rel_gap": CLOSE},
        )
        if solved.x is None:
            return None
        amounts = np.zeros(len(pool))
        amounts[keep] = np.round(solved.x)
        return amounts if worth @ amounts >= self.problem.batch else None

    def _mix(self, pool: Sequence[Column], amounts: Floats, seconds: float, bound_s: float) -> Mix:
        used = [(column, int(amount)) for column, amount in zip(pool, amounts, strict=True) if amount > 0]
        counts = [_microbatches(column, seconds) for column, _ in used]
        spare = sum(
            count * column.template.microbatch_size * replicas
            for count, (column, replicas) in zip(counts, used, strict=True)
        )
        spare -= self.problem.batch
        # The slowest kind gives up micro-batches that the batch doesn't need.
        for _ in range(sum(counts)):
            slowest = max(range(len(used)), key=lambda index: used[index][0].pace.step_s(counts[index]))
            column, replicas = used[slowest]
            if spare < column.template.microbatch_size * replicas or counts[slowest] <= 1:
                break
            counts[slowest] -= 1
            spare -= column.template.microbatch_size * replicas
        parts = tuple(
            MixPart(template=column.template, replicas=replicas, microbatches=count)
            for count, (column, replicas) in zip(counts, used, strict=True)
        )
        inside_s, across_s = sync_s(self.problem, [(part.template, part.replicas) for part in parts])
        compute_s = max(column.pace.step_s(count) for count, (column, _) in zip(counts, used, strict=True))
        return Mix(parts=parts, compute_s=compute_s, inside_s=inside_s, across_s=across_s, bound_s=bound_s)


def _different(found: Iterable[_Relaxed]) -> list[_Relaxed]:
    """Give the best of each kind of solution, best first; a kind is the stages' choices of its replicas."""
    kinds: dict[frozenset[tuple[Choice, ...]], _Relaxed] = {}
    for item in sorted(found, key=lambda item: item.total_s):
        kinds.setdefault(frozenset(template.choices for template, _ in item.parts), item)
    return list(kinds.values())


def _microbatches(column: Column, seconds: float) -> int:
    """Count the whole micro-batches that a replica does in so many seconds."""
    left_s = seconds - column.pace.fill_s
    return int(left_s / column.pace.slowest_s + 1e-9) + 1 if left_s >= 0 else 0
