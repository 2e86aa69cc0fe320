"""Finds the replicas worth most at given prices of chips: the pricing step of the mix's linear program.

Dynamic programming over (stages from the last, first layer, choice) for a grid of limits on the slowest stage, all at
once; then, for chosen classes of chips, the exact partition of layers. Must not know how replicas are combined.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from argosy.plan.mix_tables import Choice, Floats, MixProblem, MixTable, Pace, Template, pace

# Limits on the slowest stage: of pricing, and of cutting in two passes.
GRID = 36
LIMITS_COARSE, LIMITS_FINE = 12, 16
# Depths beyond the best one after which deeper pipelines are not priced.
DEPTHS_WORSE = 2
Mask = NDArray[np.bool_]
Singles = NDArray[np.float32]
INFINITE = np.float32(np.inf)
Goal = Callable[[Floats, Floats], Floats]
"""What a partition is chosen by: (sum of its stages' times, its slowest stage's) -> cost, lowest best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One kind of replica, how it runs, and the chips of each class it takes."""

    template: Template
    pace: Pace
    chips: Floats

    def worth(self, seconds: float) -> float:
        """Give the samples it trains in so many seconds, counting parts of micro-batches; 0 if it can't do one."""
        left_s = seconds - self.pace.fill_s
        return self.template.microbatch_size * (1 + left_s / self.pace.slowest_s) if left_s >= 0 else 0.0


class Pricer:
    """Prices replicas of one micro-batch size."""

    def __init__(self, problem: MixProblem, table: MixTable) -> None:
        self.problem, self.table = problem, table
        first, end = table.spans
        layers = table.layers
        forward, backward = table.forward_s, table.backward_s
        # A stage's time at least: its messages to and from the choices that are nearest.
        last = np.where(end == layers, problem.last_factor, 1.0)[:, None]
        least_s = table.span_s + np.where((end < layers)[:, None], forward.min(axis=2)[end], 0.0)
        least_s += np.where((first > 0)[:, None], backward.min(axis=1)[first] * last, 0.0)
        self.stages_max = min(problem.stages_max, layers)
        self.fits = np.stack([table.fits(flying) for flying in range(1, self.stages_max + 1)])
        usable = least_s[self.fits[0]]
        self.empty = not usable.size
        if self.empty:
            return
        self._least_s = least_s
        fastest_s = table.layer_s.min(axis=0)
        shortest_s = max(float(fastest_s.max()), float(fastest_s.sum()) / self.stages_max)
        self._range_s = shortest_s, max(float(usable.max()), shortest_s)
        self.limit(np.ones_like(self.fits[0]), np.inf)

    def limit(self, allowed: Mask, seconds: float) -> None:
        """Let stages hold only these spans, by (span, choice), and last at most so many seconds."""
        self.allowed = allowed
        if self.empty:
            return
        low_s, high_s = self._range_s
        self.grid_s = np.geomspace(low_s * (1 + 1e-9), max(min(high_s, seconds), low_s * 1.01), GRID)
        self.rate = self.table.microbatch_size / self.grid_s
        rate = self.rate.astype(np.float32)
        self._forward = self.table.forward_s.astype(np.float32)[:, :, :, None] * rate
        self._backward = self.table.backward_s.astype(np.float32)[:, :, :, None] * rate
        self._known_edges: dict[tuple[float, float], Singles] = {}
        usable = allowed & self.fits[0]
        first, end = self.table.spans
        rows = np.flatnonzero(usable.any(axis=1))
        self.hopeless = not len(rows)
        if self.hopeless:
            return
        # Spans by (first layer, length - 1); those that may not be are in no row of the table and cost infinity.
        layers, longest = self.table.layers, int((end - first)[rows].max())
        self._ends = np.minimum(np.arange(layers)[:, None] + np.arange(1, longest + 1), layers)
        index = self.table.span_index[np.arange(layers)[:, None], self._ends]
        inside = np.arange(layers)[:, None] + np.arange(1, longest + 1) <= layers
        self._allowed = (usable & self.fits)[:, index] & inside[:, :, None]
        within = self._allowed[0, :, :, :, None] & (self._least_s[index][:, :, :, None] <= self.grid_s)
        cost = self.table.span_s[index].astype(np.float32)[:, :, :, None] * rate
        self._cost = np.where(within, cost, INFINITE)

    def best(self, prices: Floats, seconds: float) -> Iterator[tuple[Template, float]]:
        """Give the replicas with the most worth above their chips' price, at most one for each depth and grid point."""
        if self.empty or self.hopeless:
            return
        chips = (prices[self.table.classes] * self.table.degrees).astype(np.float32)[:, None]
        rests = self._rests(chips, seconds)
        values = self.table.microbatch_size + seconds * self.rate - np.stack([rest[0] for rest in rests])
        over_choices = values.max(axis=1)
        for place in np.argsort(over_choices, axis=None)[::-1]:
            depth, point = divmod(int(place), GRID)
            if not np.isfinite(over_choices[depth, point]):
                return
            choice = int(values[depth, :, point].argmax())
            yield self._trace(rests, depth, choice, point), float(over_choices[depth, point])

    def _edges(self, depth: int, first: bool) -> Singles:
        """Cost of a boundary's messages in front of the last `depth` stages."""
        factors = (
            self.problem.first_factor(depth + 1) if first else 1.0,
            self.problem.last_factor if depth == 1 else 1.0,
        )
        if factors not in self._known_edges:
            forward, backward = (np.float32(factor) for factor in factors)
            self._known_edges[factors] = self._forward * forward + self._backward * backward
        return self._known_edges[factors]

    def _rests(self, chips: Singles, seconds: float) -> list[Singles]:
        """Tabulate the least cost of the last stages, by depth: (first layer, its choice, grid point)."""
        layers, longest = self._ends.shape
        rests: list[Singles] = []
        best, worse, worth = -np.inf, 0, self.table.microbatch_size + seconds * self.rate
        for depth in range(self.stages_max):
            rest = np.full((layers + 1, *self._cost.shape[2:]), INFINITE)
            total = np.where(self._allowed[depth][:, :, :, None], self._cost, INFINITE) if depth else self._cost
            if depth == 0:
                rest[:layers] = np.where((self._ends == layers)[:, :, None, None], total, INFINITE).min(axis=1)
            else:
                after = (rests[-1][:, None] + self._edges(depth, first=False)).min(axis=2)
                rest[:layers] = (total + after[self._ends]).min(axis=1)
                if self.problem.first_factor(depth + 1) != 1.0:
                    near = slice(1, longest + 1)
                    after = (rests[-1][near, None] + self._edges(depth, first=True)[near]).min(axis=2)
                    rest[0] = (total[0, : len(after)] + after).min(axis=0)
            rest += chips
            rests.append(rest)
            value = float((worth - rest[0]).max())
            worse = worse + 1 if np.isfinite(best) and value <= best else 0
            best = max(best, value)
            if worse >= DEPTHS_WORSE:
                break
        return rests

    def _trace(self, rests: Sequence[Singles], depth: int, choice: int, point: int) -> Template:
        """Follow the least cost from the first stage to the last."""
        first, picked, ends = 0, [choice], []
        for left in range(depth, 0, -1):
            edges = self._edges(left, first=left == depth)[:, choice, :, point]
            onward = rests[left - 1][:, :, point] + edges
            total = onward.min(axis=1)[self._ends[first]] + self._cost[first, :, choice, point]
            total = np.where(self._allowed[left, first, :, choice], total, INFINITE)
            first = int(self._ends[first, int(total.argmin())])
            choice = int(onward[first].argmin())
            ends.append(first)
            picked.append(choice)
        return template_of(self.table, picked, [*ends, self.table.layers])


def template_of(table: MixTable, picked: Sequence[int], ends: Sequence[int]) -> Template:
    """Name a replica whose stages have these choices' indices."""
    return Template(
        microbatch_size=table.microbatch_size,
        choices=tuple(table.choices[index] for index in picked),
        ends=tuple(int(end) for end in ends),
    )


def column_of(problem: MixProblem, template: Template) -> Column:
    """Time a replica and count its chips."""
    table = problem.table(template.microbatch_size)
    picked = [table.choices.index(choice) for choice in template.choices]
    return Column(template=template, pace=pace(problem, table, picked, template.ends), chips=problem.chips(template))


def _span(microbatches: int, sums: Floats, tops: Floats) -> Floats:
    """Time from the first micro-batch in to the last one out."""
    return sums + (microbatches - 1) * tops


def partitions(
    pricer: Pricer, choices: Sequence[Choice], seconds: float, microbatches: Sequence[int] = ()
) -> list[Template]:
    """Cut layers for these choices: the most worth in so many seconds, and the least time of given micro-batches.

    Exact for each limit on the slowest stage that is tried: a coarse row of limits, then all around the best of them.
    """
    table = pricer.table
    picked = [table.choices.index(choice) for choice in choices]
    cut = _Cutter(pricer, picked)
    limits = np.unique(cut.times[cut.allowed])
    if not len(limits):
        return []
    coarse = limits[np.unique(np.linspace(0, len(limits) - 1, LIMITS_COARSE).astype(int))]
    goals: list[Goal] = [lambda sums, tops: (sums - seconds) / tops]
    goals += [partial(_span, count) for count in microbatches]
    found = []
    sums, _ = cut.sums(coarse)
    for goal in goals:
        costs = goal(sums, coarse)
        best = int(np.argmin(costs))
        if not np.isfinite(costs[best]):
            continue
        low, high = coarse[max(0, best - 1)], coarse[min(len(coarse) - 1, best + 1)]
        fine = limits[(limits >= low) & (limits <= high)]
        fine = fine[:: max(1, len(fine) // LIMITS_FINE)]
        fine_sums, rests = cut.sums(fine)
        point = int(np.argmin(goal(fine_sums, fine)))
        if np.isfinite(fine_sums[point]):
            found.append(template_of(table, picked, cut.ends(rests, fine[point], point)))
    return list(dict.fromkeys(found))


class _Cutter:
    """Cuts layers into stages of given choices: least sum of times with no stage above a limit, for many limits."""

    def __init__(self, pricer: Pricer, picked: Sequence[int]) -> None:
        self.count, self.layers = len(picked), pricer.table.layers
        times, allowed = _stage_times(pricer, picked), _stage_allowed(pricer, picked)
        first, end = pricer.table.spans
        rows = np.flatnonzero(allowed.any(axis=0))
        rows = rows[np.lexsort((first[rows], end[rows]))]
        self.first, self.end = first[rows], end[rows]
        self.times, self.allowed = times[:, rows], allowed[:, rows]
        self.last, self.breaks = np.unique(self.end, return_index=True)

    def sums(self, limits: Floats) -> tuple[Floats, list[Floats]]:
        """Give the least sums by limit, and the tables that lead there, by (layer, limit)."""
        rest = np.full((self.layers + 1, len(limits)), np.inf)
        rest[0] = 0.0
        rests = [rest]
        for stage in range(self.count):
            times = np.where(self.allowed[stage], self.times[stage], np.inf)[:, None]
            reach = np.where(times <= limits, times, np.inf) + rest[self.first]
            rest = np.full_like(rest, np.inf)
            if len(self.breaks):
                rest[self.last] = np.minimum.reduceat(reach, self.breaks, axis=0)
            rests.append(rest)
        return rest[self.layers], rests

    def ends(self, rests: Sequence[Floats], limit: float, point: int) -> list[int]:
        """Follow one limit's least sum back to where the stages end."""
        ends = [self.layers]
        for stage in range(self.count - 1, 0, -1):
            rows = np.flatnonzero((self.end == ends[-1]) & self.allowed[stage] & (self.times[stage] <= limit))
            total = self.times[stage, rows] + rests[stage][self.first[rows], point]
            ends.append(int(self.first[rows[int(total.argmin())]]))
        return ends[::-1]


def _stage_times(pricer: Pricer, picked: Sequence[int]) -> Floats:
    """Time every span on every stage, messages included, by (stage, span)."""
    table, problem = pricer.table, pricer.problem
    first, end = table.spans
    count = len(picked)
    rows = []
    for stage, choice in enumerate(picked):
        seconds = table.span_s[:, choice].copy()
        if stage < count - 1:
            factor = problem.first_factor(count) if stage == 0 else 1.0
            seconds += factor * table.forward_s[end, choice, picked[stage + 1]]
        if stage > 0:
            factor = problem.last_factor if stage == count - 1 else 1.0
            seconds += factor * table.backward_s[first, picked[stage - 1], choice]
        rows.append(seconds)
    return np.stack(rows)


def _stage_allowed(pricer: Pricer, picked: Sequence[int]) -> Mask:
    count = len(picked)
    return np.stack(
        [pricer.allowed[:, choice] & pricer.fits[count - stage - 1][:, choice] for stage, choice in enumerate(picked)]
    )
