"""Chooses replicas, how many of each, and their micro-batches, for the least time of a step.

For a limit on the time of summing gradients, a linear program over kinds of replicas, priced as needed, gives the least
time with fractional replicas; an integer program over the replicas found gives whole ones. The limit is lowered as far
as that helps. Must not know files, networks or what a class of chips is called.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.plan.mix_columns import Column, Pricer, column_of, partitions
from argosy.plan.mix_sync import Part, byte_limits, heaviest_stages, ring_members, sync_s
from argosy.plan.mix_tables import Choice, Floats, MixProblem, Template

ROUNDS_MAX = 10
LIMITS_MAX = 24
LIMIT_RATIO = 0.8
STARTS, TIGHTER_MAX = 4, 8
# How much worse than the best a relaxed solution may be to be followed, and to end the sweep.
NEAR, WORSE_MAX = 1.03, 1.15
INTEGER_TRIES = 6
INTEGER_HALVINGS = 9
POOL_MAX = 90
NEAREST = 8
# Replicas looked at, and taken, in a round of pricing from each table; how far the grid may understate their worth.
LOOKED_AT, FRESH_FIRST, FRESH = 24, 6, 3
GRID_ERROR = 0.1
SOLVER_S = 0.25
# How much longer than the last limit's step a stage may last.
LONGER = 1.5
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
    relaxed = sorted(search.sweep(), key=lambda found: found.total_s)
    if not relaxed:
        raise NeverFitsError(
            "no replica fits: even split over all stages and tensor-parallel degrees that were measured, some layer "
            "needs more memory than its chip has, or the pool has too few chips"
        )
    bound_s, best = relaxed[0].total_s, None
    seen: set[tuple[Part, ...]] = set()
    for found in relaxed:
        if len(seen) >= INTEGER_TRIES:
            break
        if best is not None and found.total_s >= best.step_s:
            break
        if found.parts in seen:
            continue
        seen.add(found.parts)
        mix = search.whole(found, bound_s)
        if mix is not None and (best is None or mix.step_s < best.step_s):
            best = mix
    if best is None:
        raise NeverFitsError("no whole number of replicas trains the batch; give the job more chips or a smaller batch")
    return best


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
        self.prices = np.full(len(problem.counts), 1e-9)
        self.seconds = 1.0
        self.members = np.maximum(2.0, self.counts / 8)
        self.tried: set[tuple[float, ...]] = set()

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
            self._add(found, limit_s)
            limit_s *= LIMIT_RATIO
            if found and found[-1].seconds > WORSE_MAX * min(item.total_s for item in found):
                break
        for start in sorted(found, key=lambda item: item.total_s)[:STARTS]:
            self._tighten(found, start)
        return found

    def _tighten(self, found: list[_Relaxed], step: _Relaxed | None) -> None:
        """Forbid the heaviest stage of the class that sums longest, again and again while that doesn't lose much."""
        for _ in range(TIGHTER_MAX):
            if step is None or step.total_s > NEAR * min(item.total_s for item in found):
                return
            bytes_each = heaviest_stages(self.problem, step.parts)
            members = ring_members(self.problem, step.parts)
            rings_s = [
                self.problem.reduce_s(float(size), round(count), c, c)
                for c, (size, count) in enumerate(zip(bytes_each, members, strict=True))
            ]
            slowest = int(np.argmax(rings_s))
            limits = np.maximum(step.limits, 0.0)
            limits[slowest] = bytes_each[slowest] * (1 - 1e-9)
            key = tuple(np.round(limits, -3))
            if key in self.tried:
                return
            self.tried.add(key)
            self.prices, self.seconds = step.prices, step.seconds
            step = self.relax(limits)
            if step is not None:
                found.append(step)

    def _add(self, found: list[_Relaxed], limit_s: float) -> _Relaxed | None:
        relaxed = self.relax(byte_limits(self.problem, limit_s, self.members))
        if relaxed is not None:
            found.append(relaxed)
        return relaxed

    def relax(self, limits: Floats) -> _Relaxed | None:
        """Solve with fractional replicas whose stages sum at most so many bytes, by class; None if nothing fits."""
        problem = self.problem
        self._limit(limits)
        pool = [column for column in self.columns.values() if self._within(column, limits)]
        seen = {column.template for column in pool}
        amounts, tries = np.zeros(0), 0
        cut: set[tuple[int, tuple[Choice, ...]]] = set()
        for round_ in range(ROUNDS_MAX):
            fresh = [t for t in self._price(cut, first=round_ == 0 and not pool) if t not in seen]
            for template in dict.fromkeys(fresh):
                seen.add(template)
                pool.append(self.columns.setdefault(template, column_of(problem, template)))
            if not pool:
                return None
            before = self.seconds
            while (solved := self._solve(pool)) is None and tries < 40:
                self.seconds, tries = self.seconds * 1.5, tries + 1
            if solved is None:
                return None
            amounts = solved
            if not fresh and abs(self.seconds - before) <= CLOSE * self.seconds:
                break
        used = [(column.template, amount) for column, amount in zip(pool, amounts, strict=True) if amount > 1e-6]
        parts = [(template, max(1, round(amount))) for template, amount in used]
        self.members = ring_members(problem, parts)
        return _Relaxed(
            limits=limits,
            seconds=self.seconds,
            sync=sync_s(problem, parts),
            parts=tuple(parts),
            prices=self.prices.copy(),
            columns=tuple(pool),
        )

    def _limit(self, limits: Floats) -> None:
        weights = self.problem.weights_before
        for pricer in self.pricers:
            first, end = pricer.table.spans
            bytes_each = (weights[end] - weights[first])[:, None] / pricer.table.degrees
            longest_s = LONGER * self.seconds if self.columns else np.inf
            pricer.limit(bytes_each <= limits[pricer.table.classes], longest_s)

    def _price(self, cut: set[tuple[int, tuple[Choice, ...]]], first: bool) -> Iterable[Template]:
        """Give replicas that may be worth more than their price; cut: what was given at these limits already."""
        for pricer in self.pricers:
            left = FRESH_FIRST if first else FRESH
            for template, value in pricer.best(self.prices, self.seconds, keep=LOOKED_AT):
                # The grid understates a replica's worth by up to its step.
                floor = -GRID_ERROR * float(self.prices @ self.problem.chips(template))
                key = (template.microbatch_size, template.choices)
                if not left or (not first and value <= floor):
                    break
                if key not in cut:
                    cut.add(key)
                    left -= 1
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
        worth = np.array([column.worth(self.seconds) for column in pool])
        if worth.max() <= 0:
            return None
        uses = np.array([column.chips for column in pool]).T
        solved = linprog(-worth, A_ub=uses, b_ub=self.counts, method="highs")
        if -solved.fun <= 0:
            return None
        rates = np.array([column.template.microbatch_size / column.pace.slowest_s for column in pool])
        self.seconds += (self.problem.batch + solved.fun) / float(solved.x @ np.where(worth > 0, rates, 0.0))
        self.prices = np.maximum(-solved.ineqlin.marginals, 1e-12)
        return np.asarray(solved.x)

    def whole(self, relaxed: _Relaxed, bound_s: float) -> Mix | None:
        """Find whole replicas near a relaxed solution: the least time in which they train the batch."""
        pool = self._near(relaxed)
        low_s, high_s, best = relaxed.seconds, relaxed.seconds * 1.4, None
        for step in range(INTEGER_HALVINGS):
            seconds = low_s * 1.005 if step == 0 else (low_s + high_s) / 2
            amounts = self._integer(pool, seconds)
            if amounts is None:
                low_s = seconds
            else:
                best, high_s = (seconds, amounts), seconds
            if high_s <= low_s * (1 + CLOSE):
                break
        if best is None:
            return None
        return self._mix(pool, best[1], best[0], bound_s)

    def _near(self, relaxed: _Relaxed) -> list[Column]:
        """Give the replicas worth nearly their price, cut also for the whole micro-batches just below and above."""
        seconds, prices = relaxed.seconds, relaxed.prices
        pool = {column.template: column for column in relaxed.columns}

        def excess(column: Column) -> float:
            return column.worth(seconds) / float(prices @ column.chips)

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
        return sorted((c for c in pool.values() if c.worth(seconds) > 0), key=excess, reverse=True)[:POOL_MAX]

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


def _microbatches(column: Column, seconds: float) -> int:
    """Count the whole micro-batches that a replica does in so many seconds."""
    left_s = seconds - column.pace.fill_s
    return int(left_s / column.pace.slowest_s + 1e-9) + 1 if left_s >= 0 else 0
