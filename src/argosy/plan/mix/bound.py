"""A proven least time of a step: no mix of pipelines, however chosen, does the job faster by the same rules.

Every mix is in one cell: how many replicas it has, and how long its sums take. In a cell, stages can't hold more
gradients than are summed in the longest time, nothing takes less than the shortest, and replicas and micro-batches may
be fractional. The least time of that linear program is certified by prices: if no replica there could be is worth more
than its price in a time, the batch can't be trained in it. Must not know how mixes are searched for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
from scipy.optimize import linprog

from argosy.plan.mix.price import Pricer
from argosy.plan.mix.store import Store
from argosy.plan.mix.sync import spans_of
from argosy.plan.mix.tables import Floats, MixProblem, Sums

# Times of sums that cells are parted at; rounds of pricing in one cell.
PARTS, ROUNDS_MAX, CLOSE = 24, 6, 1e-3
# Limits on the slowest stage: of the first look, and how often those that may hide a replica worth more are parted.
GRID, FINER, FINER_MAX = 16, 6, 3
# How far below a cell's relaxed time a certificate is tried, one after the other.
SLACKS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
SMALLEST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """At most so many replicas, sums of at least so long, and by table and carrier what a stage may hold at most.

    place: how far from the middle it is, for the order of work alone.
    """

    place: int
    replicas_max: int
    sum_s: float
    most: tuple[Floats, ...]


def bound_s(problem: MixProblem, sums: Sums) -> float:
    """Give seconds that no step of any mix is shorter than; 0 if nothing could be proven."""
    deep = replace(problem, stages_max=problem.layers)
    bounder = _Bounder(deep)
    least_s = float("inf")
    for cell in sorted(_cells(deep, bounder.pricers, sums), key=lambda cell: abs(cell.place)):
        if not (np.isfinite(least_s) and bounder.beyond(cell, least_s - cell.sum_s)):
            least_s = min(least_s, bounder.least_s(cell) + cell.sum_s)
    return least_s if np.isfinite(least_s) else 0.0


def _cells(problem: MixProblem, pricers: list[Pricer], sums: Sums) -> Iterator[_Cell]:
    unlimited = tuple(np.full(len(pricer.table.carriers), np.inf) for pricer in pricers)
    most = max(1, min(problem.batch, sum(problem.counts)))
    yield _Cell(place=PARTS + 1, replicas_max=1, sum_s=0.0, most=unlimited)
    for low, high in _bands(most) if sums == "one_ring" else [(2, most)] * (most > 1):
        spans = spans_of(problem)
        least = [_least_sums(problem, pricer, spans, low, high, sums) for pricer in pricers]
        longest_s = max(float(each.max()) for each in least)
        steps = [0.0, *np.geomspace(max(longest_s / 40, SMALLEST_S), max(longest_s, SMALLEST_S), PARTS)]
        for number, (shorter, longer) in enumerate(pairwise(steps)):
            limits = tuple(np.where(each <= longer, spans, 0.0).max(axis=1) * (1 + 1e-9) for each in least)
            yield _Cell(place=number - PARTS // 2, replicas_max=high, sum_s=float(shorter), most=limits)
        yield _Cell(place=PARTS, replicas_max=high, sum_s=float(steps[-1]), most=unlimited)


def _bands(most: int) -> list[tuple[int, int]]:
    """Part the numbers of replicas from 2 on: each part up to twice its first."""
    bands, low = [], 2
    while low <= most:
        high = most if low >= 32 else min(most, 2 * low - 1)
        bands.append((low, high))
        low = high + 1
    return bands


def _least_sums(problem: MixProblem, pricer: Pricer, spans: Floats, low: int, high: int, sums: Sums) -> Floats:
    """Give by (carrier, weights) the least time that a stage's sums can take with so many replicas.

    Each run of layers in it is priced at the least time a byte of any run no heavier than the stage, any split no
    finer than its own, any number of replicas and any partner there may be.
    """
    table, classes = pricer.table, range(len(problem.counts))
    members = np.arange(low, high + 1)[None, :]
    shares = sorted({problem.shares(int(tp)) for each in problem.tables for tp in each.degrees})
    rows: dict[tuple[int, int], Floats] = {}
    for carrier in table.carriers:
        share, index = problem.shares(carrier.tp), carrier.chip_class
        if (index, share) in rows:
            continue
        near = [(a, b) for a, b in product(classes, repeat=2) if sums == "three_phases" or index in (a, b)]
        each = np.full(len(spans), np.inf)
        for (a, b), split in product(near, [s for s in shares if s <= share]):
            sizes = np.maximum(spans, 1.0)[:, None] / split
            each = np.minimum(each, np.min(problem.reduce_s(sizes, members, a, b) / sizes, axis=1))
        rows[index, share] = np.minimum.accumulate(each) * spans / share
    return np.stack([rows[carrier.chip_class, problem.shares(carrier.tp)] for carrier in table.carriers])


class _Bounder:
    """Solves and certifies cells, from the prices of the cell before."""

    def __init__(self, problem: MixProblem) -> None:
        self.problem, self.store = problem, Store(problem)
        self.pricers = [Pricer(problem, table) for table in problem.tables]
        self.counts = np.array(problem.counts, dtype=float)
        self.prices = np.full(len(self.counts), problem.batch / max(1.0, float(self.counts.sum())))
        self.each, self.seconds = 0.0, 1.0

    def least_s(self, cell: _Cell) -> float:
        """Give a time that certainly doesn't do in a cell; infinite where nothing fits."""
        if not self._relax(cell):
            return float("inf") if self._impossible(cell) else 0.0
        for slack in SLACKS:
            if self.beyond(cell, self.seconds * (1 - slack)):
                return self.seconds * (1 - slack)
        return 0.0

    def beyond(self, cell: _Cell, seconds: float) -> bool:
        """Tell whether the prices at hand prove that so many seconds don't do in a cell, or just do."""
        total = float(self.prices @ self.counts) + self.each * cell.replicas_max
        prices, each = self.prices * self.problem.batch / total, self.each * self.problem.batch / total
        return all(
            self._priced(pricer, most, prices, each, seconds)
            for pricer, most in zip(self.pricers, cell.most, strict=True)
        )

    def _impossible(self, cell: _Cell) -> bool:
        """Tell whether no replica fits at all, however long it may take."""
        for pricer, most in zip(self.pricers, cell.most, strict=True):
            grid = np.array([1.0]), np.array([np.inf])
            costs, _ = pricer.cheapest(self.prices, most, grid, pricer.table.layers)
            if np.isfinite(costs[0]):
                return False
        return True

    def _relax(self, cell: _Cell) -> bool:
        """Solve a cell's linear program over replicas priced as needed; tell whether anything fits."""
        pool: list[int] = []
        for _ in range(ROUNDS_MAX):
            before = self.seconds
            kinds = [
                kind
                for pricer, most in zip(self.pricers, cell.most, strict=True)
                for kind in pricer.best(self.prices, 4 * self.seconds, most)
            ]
            fresh = [number for number in dict.fromkeys(self.store.add(kinds)) if number not in set(pool)]
            pool += fresh
            if not pool:
                self.seconds *= 4
                continue
            self._solve(pool, cell)
            if not fresh or abs(self.seconds / before - 1) <= CLOSE:
                break
        return bool(pool)

    def _solve(self, pool: list[int], cell: _Cell) -> None:
        columns = self.store.arrays().some(pool)
        uses = np.vstack([columns.chips.T, np.ones(len(pool))])
        limits = [*self.counts, cell.replicas_max]
        self.seconds = max(self.seconds, float(columns.fill_s.min()) * (1 + 1e-9))
        for _ in range(ROUNDS_MAX):
            worth = columns.worth(self.seconds)
            solved = linprog(-worth, A_ub=uses, b_ub=limits, method="highs")
            if solved.x is None or solved.fun >= 0:
                self.seconds *= 2
                continue
            duals = np.maximum(-solved.ineqlin.marginals, 0.0)
            self.prices, self.each = np.maximum(duals[:-1], 1e-12), float(duals[-1])
            rate = float(solved.x @ np.where(worth > 0, columns.size / columns.slowest_s, 0.0))
            before = self.seconds
            least_s = float(columns.fill_s[worth > 0].min()) * (1 + 1e-9)
            self.seconds = max(before + (self.problem.batch + float(solved.fun)) / rate, least_s)
            if abs(self.seconds - before) <= CLOSE * before:
                return

    def _priced(self, pricer: Pricer, most: Floats, prices: Floats, each: float, seconds: float) -> bool:
        """Tell whether no replica of a table is worth more than its chips' price in so many seconds.

        Between two limits on the slowest stage, a replica runs at most at the shorter's rate and is cut at best for
        the longer.
        """
        size = pricer.table.microbatch_size
        if seconds <= pricer.shortest_s:
            return True
        edges = np.geomspace(pricer.shortest_s / (1 + 1e-9), seconds, GRID + 1)
        cells = np.stack([edges[:-1], edges[1:]])
        for _ in range(FINER_MAX):
            rates = size / cells[0]
            costs, _ = pricer.cheapest(prices, most, (rates, cells[1] * (1 + 1e-9)), pricer.table.layers)
            worth = size + seconds * rates - costs - each
            open_cells = cells[:, worth > 0]
            if not open_cells.shape[1]:
                return True
            finer = np.geomspace(open_cells[0], open_cells[1], FINER + 1)
            cells = np.stack([finer[:-1].ravel(), finer[1:].ravel()])
        return False
