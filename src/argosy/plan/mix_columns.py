"""Finds the replicas worth most at given prices of chips: the pricing step of the mix's linear program.

Dynamic programming over (stages from the last, first layer, choice) for a grid of limits on the slowest stage, all at
once; then, for chosen classes of chips, the exact partition of layers. Must not know how replicas are combined.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argosy.plan.mix_tables import Choice, Floats, Integers, MixProblem, MixTable, Pace, Template, pace

GRID = 32
CANDIDATES_MAX = 64
Mask = NDArray[np.bool_]


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
        one_layer = least_s[end - first == 1].min(axis=1).max()
        self.grid_s = np.geomspace(one_layer * (1 + 1e-9), max(usable.max(), one_layer * 1.01), GRID)
        self.rate = table.microbatch_size / self.grid_s
        cost = table.span_s[:, :, None] * self.rate
        cost[(least_s[:, :, None] > self.grid_s) | ~self.fits[0][:, :, None]] = np.inf
        self._cost = cost
        self._forward = forward[:, :, :, None] * self.rate
        self._backward = backward[:, :, :, None] * self.rate
        self.limit(np.ones_like(self.fits[0]))

    def limit(self, allowed: Mask) -> None:
        """Let stages hold only these spans, by (span, choice)."""
        self.allowed = allowed
        rows = np.flatnonzero((allowed & self.fits[0]).any(axis=1))
        first, end = self.table.spans
        self._first, self._end = first[rows], end[rows]
        self._spans_cost = np.where(allowed[rows][:, :, None], self._cost[rows], np.inf)
        self._full = np.where(self.fits[:, rows], 0.0, np.inf)[:, :, :, None]
        self._firsts, self._breaks = np.unique(self._first, return_index=True)

    def best(self, prices: Floats, seconds: float, keep: int) -> list[tuple[Template, float]]:
        """Give the replicas with the most worth above their chips' price, at most one for each depth and grid point."""
        if self.empty or not len(self._first):
            return []
        chips = (prices[self.table.classes] * self.table.degrees)[:, None]
        rests = self._rests(chips)
        depths = [rest[0] for rest in rests]
        values = self.table.microbatch_size + seconds * self.rate - np.stack(depths)
        over_choices = values.max(axis=1)
        order = np.argsort(over_choices, axis=None)[::-1][:keep]
        found = []
        for place in order:
            depth, point = divmod(int(place), GRID)
            if np.isfinite(over_choices[depth, point]):
                choice = int(values[depth, :, point].argmax())
                template = self._trace(rests, depth, choice, point)
                found.append((template, float(over_choices[depth, point])))
        return found

    def _edges(self, depth: int, first: bool) -> Floats:
        """Cost of a boundary's messages in front of the last `depth` stages."""
        backward = self._backward * self.problem.last_factor if depth == 1 else self._backward
        return self._forward * (self.problem.first_factor(depth + 1) if first else 1.0) + backward

    def _rests(self, chips: Floats) -> list[Floats]:
        """Tabulate the least cost of the last stages, by depth: (first layer, its choice, grid point)."""
        layers, choices = self.table.layers, len(self.table.choices)
        rests: list[Floats] = []
        for depth in range(self.stages_max):
            rest = np.full((layers + 1, choices, GRID), np.inf)
            total = self._spans_cost + self._full[depth]
            if depth == 0:
                at = self._end == layers
                rest[self._first[at]] = total[at] + chips
            else:
                total += (rests[-1][:, None] + self._edges(depth, first=False)).min(axis=2)[self._end]
                rest[self._firsts] = np.minimum.reduceat(total, self._breaks, axis=0) + chips
                if self.problem.first_factor(depth + 1) != 1.0 and self._firsts[0] == 0:
                    rest[0] = self._first_stage(rests[-1], depth) + chips
            rests.append(rest)
        return rests

    def _first_stage(self, rest: Floats, depth: int) -> Floats:
        at = slice(0, int(self._breaks[1]) if len(self._breaks) > 1 else len(self._first))
        total = (rest[:, None] + self._edges(depth, first=True)).min(axis=2)[self._end[at]]
        total += self._spans_cost[at] + self._full[depth][at]
        return np.asarray(total.min(axis=0))

    def _trace(self, rests: Sequence[Floats], depth: int, choice: int, point: int) -> Template:
        """Follow the least cost from the first stage to the last."""
        first, picked, ends = 0, [choice], []
        for left in range(depth, 0, -1):
            at = np.flatnonzero(self._first == first)
            edges = self._edges(left, first=left == depth)[:, choice, :, point]
            onward = rests[left - 1][:, :, point] + edges
            end_of = self._end[at]
            total = onward.min(axis=1)[end_of] + self._spans_cost[at, choice, point] + self._full[left][at, choice, 0]
            first = int(end_of[total.argmin()])
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


def partitions(pricer: Pricer, choices: Sequence[Choice], seconds: float) -> list[Template]:
    """Cut layers for these choices exactly: the fastest slowest stage, and the most worth in so many seconds."""
    table = pricer.table
    picked = [table.choices.index(choice) for choice in choices]
    times, allowed = _stage_times(pricer, picked), _stage_allowed(pricer, picked)
    limits = np.unique(times[allowed])
    if not len(limits):
        return []
    limits = limits[:: max(1, len(limits) // CANDIDATES_MAX)]
    first, end = table.spans
    rest, came = np.full((table.layers + 1, len(limits)), np.inf), []
    rest[0] = 0.0
    for stage in range(len(picked)):
        within = allowed[stage][:, None] & (times[stage][:, None] <= limits)
        reach = np.full((table.layers + 1, table.layers + 1, len(limits)), np.inf)
        reach[end, first] = np.where(within, times[stage][:, None], np.inf) + rest[first]
        came.append(reach.argmin(axis=1))
        rest = reach.min(axis=1)
    sums = rest[table.layers]
    if not np.isfinite(sums).any():
        return []
    worth = np.where(np.isfinite(sums), (seconds - sums) / limits, -np.inf)
    points = {int(np.isfinite(sums).argmax()), int(worth.argmax())}
    return [template_of(table, picked, _ends(came, point, table.layers)) for point in sorted(points)]


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


def _ends(came: Sequence[Integers], point: int, layers: int) -> list[int]:
    ends = [layers]
    for choice in reversed(came[1:]):
        ends.append(int(choice[ends[-1], point]))
    return ends[::-1]
