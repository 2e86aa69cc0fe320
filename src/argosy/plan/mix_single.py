"""Finds the best step in which all replicas are alike: so many of them, each with its share of every class of chips.

Exact for each number of replicas and limit on the slowest stage that is tried: dynamic programming over (stages from
the last, chips used, first layer, choice), compiled. All holders of a layer are then of one class and one TP degree, so
that no ring crosses classes. Must not know files, networks or what a class of chips is called.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from argosy.contracts.compiled import compiled
from argosy.plan.mix_store import Kind
from argosy.plan.mix_tables import Floats, Integers, MixProblem, MixTable, pace

# Numbers of replicas looked at for each size of micro-batch, and of all those tried closely; ways to use the chips.
LOOKED_AT, TRIED, WAYS_MAX = 20, 8, 80
# Limits on the slowest stage in a coarse and a close look; limits on the sum in a close one.
COARSE, FINE, SUMS = 8, 24, 4


@compiled
def _fewest(
    times: tuple[Floats, Floats, Floats],
    held: tuple[Floats, Floats, Floats],
    rings: tuple[Floats, float],
    steps: Integers,
    factors: tuple[Floats, float],
    limit_s: float,
) -> tuple[float, Integers, Integers]:
    """Least sum of stages' times with no stage above the limit; the stages' ends and choices.

    times: seconds before each layer by choice, messages forward and backward; held: state and stored bytes before each
    layer and room, by choice; rings: seconds by (choice, first layer, end), and their limit; steps: the way after
    (way, choice), -1 where chips lack.
    """
    seconds, forward, backward = times
    count, layers, ways = seconds.shape[0], seconds.shape[1] - 1, steps.shape[0]
    deepest = len(factors[0]) - 1
    rest = np.full((ways, layers + 1, count), np.inf)
    end_of = np.zeros((deepest + 1, ways, layers + 1, count), np.int16)
    next_of = np.full((deepest + 1, ways, layers + 1, count), -1, np.int16)
    best, found = np.inf, (0, 0, 0)
    for depth in range(1, deepest + 1):
        new = np.full((ways, layers + 1, count), np.inf)
        any_new = False
        for way in range(ways):
            for choice in range(count):
                before = steps[way, choice]
                if before < 0 or (depth == 1) != (before == 0):
                    continue
                for first in range(layers - depth + 1):
                    for end in range(layers if depth == 1 else first + 1, layers - depth + 2):
                        own_s = seconds[choice, end] - seconds[choice, first]
                        kept = held[0][choice, end] - held[0][choice, first]
                        kept += depth * (held[1][choice, end] - held[1][choice, first])
                        if own_s > limit_s or kept > held[2][choice] or rings[0][choice, first, end] > rings[1]:
                            break
                        if depth == 1:
                            new[way, first, choice], end_of[1, way, first, choice] = own_s, end
                            any_new = True
                            continue
                        back = factors[1] if depth == 2 else 1.0
                        ahead = factors[0][depth] if first == 0 else 1.0
                        for after in range(count):
                            sent_s = ahead * forward[end, choice, after]
                            cost = own_s + sent_s + back * backward[end, choice, after] + rest[before, end, after]
                            if own_s + sent_s <= limit_s and cost < new[way, first, choice]:
                                new[way, first, choice], any_new = cost, True
                                end_of[depth, way, first, choice], next_of[depth, way, first, choice] = end, after
                if new[way, 0, choice] < best:
                    best, found = new[way, 0, choice], (depth, way, choice)
        if not any_new:
            break
        rest = new
    depth, way, choice = found
    ends, picks = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    first = 0
    for stage in range(depth):
        left = depth - stage
        picks[stage], ends[stage] = choice, end_of[left, way, first, choice]
        after, way = next_of[left, way, first, choice], steps[way, choice]
        first, choice = ends[stage], after
    return best, ends, picks


def alike(problem: MixProblem, best_s: float) -> Iterator[Kind]:
    """Give kinds of replicas that may be fastest if all are of one kind; best_s: the step that must be beaten.

    First a coarse look at every number of replicas that could do it, then a close one at the best of those.
    """
    ranked = []
    for table in problem.tables:
        looked = []
        for replicas in range(1, max(1, min(problem.batch, sum(problem.counts))) + 1):
            chips = np.array(problem.counts) // replicas
            count = -(-problem.batch // (table.microbatch_size * replicas))
            # Fewer replicas that need as many micro-batches have more chips each.
            if replicas != -(-problem.batch // (table.microbatch_size * count)):
                continue
            busy_s = _busy_s(table, chips)
            if count * busy_s < best_s:
                looked.append((count * busy_s, _Shape(problem, table, replicas, count, busy_s)))
        for _, shape in sorted(looked, key=lambda item: item[0])[:LOOKED_AT]:
            found = shape.solve(best_s, COARSE, 1)
            yield from (kind for _, kind in found)
            if found:
                ranked.append((min(step_s for step_s, _ in found), shape))
    for _, shape in sorted(ranked, key=lambda item: item[0])[:TRIED]:
        yield from (kind for _, kind in shape.solve(best_s, FINE, SUMS))


def _busy_s(table: MixTable, chips: Integers) -> float:
    """Give the time of a micro-batch if every class's chips worked all the time at their best degree."""
    full_s = table.layer_s.sum(axis=1) * table.degrees
    speed = sum(
        count / float(full_s[table.classes == index].min())
        for index, count in enumerate(chips)
        if count and (table.classes == index).any()
    )
    return 1 / speed if speed else float("inf")


class _Shape:
    """So many replicas with so many micro-batches of one size each."""

    def __init__(self, problem: MixProblem, table: MixTable, replicas: int, count: int, busy_s: float) -> None:
        self.problem, self.table, self.count, self.busy_s = problem, table, count, busy_s
        self.chips = np.array(problem.counts) // replicas
        self.replicas = replicas

    def solve(self, best_s: float, points: int, sums: int) -> list[tuple[float, Kind]]:
        """Give (step, kind) of the best kinds for each least TP degree and limit on the sum and the slowest stage."""
        table, rings = self.table, _rings(self.problem, self.table, self.replicas)
        shortest_s = max(float(rings[:, layer, layer + 1].min()) for layer in range(table.layers))
        longest_s = max(shortest_s, min(float(rings[:, 0, -1].max()), best_s - self.count * self.busy_s))
        most_s = [longest_s] if sums == 1 else list(np.geomspace(max(shortest_s, 1e-9), max(longest_s, 1e-9), sums))
        limits = np.geomspace(self.busy_s, max(self.busy_s, (best_s - shortest_s) / self.count), points)
        found: dict[Kind, float] = {}
        for least in sorted({int(degree) for degree in table.degrees}):
            allowed = np.flatnonzero((table.degrees >= least) & (table.degrees <= self.chips[table.classes]))
            steps = _ways(table, allowed, self.chips)
            if steps is None:
                continue
            times, held, factors = self._arrays(allowed, least)
            for sum_s, limit_s in product(most_s, limits):
                ring = rings[allowed], float(sum_s) * (1 + 1e-9)
                total, ends, picks = _fewest(times, held, ring, steps, factors, float(limit_s) * (1 + 1e-9))
                kind = table.microbatch_size, tuple(allowed[picks].tolist()), tuple(ends.tolist())
                if np.isfinite(total) and kind not in found:
                    found[kind] = self._step_s(kind, rings)
        return [(step_s, kind) for kind, step_s in found.items()]

    def _step_s(self, kind: Kind, rings: Floats) -> float:
        _, picked, ends = kind
        ring_s = max(rings[choice, first, end] for choice, first, end in zip(picked, (0, *ends), ends, strict=False))
        return pace(self.problem, self.table, picked, ends).step_s(self.count) + float(ring_s)

    def _arrays(
        self, allowed: Integers, least: int
    ) -> tuple[tuple[Floats, Floats, Floats], tuple[Floats, Floats, Floats], tuple[Floats, float]]:
        problem, table = self.problem, self.table
        pairs = np.ix_(np.arange(table.layers + 1), allowed, allowed)
        times = _before(table.layer_s)[allowed], table.forward_s[pairs], table.backward_s[pairs]
        room = (table.limit_bytes - table.fixed_bytes).astype(float)[allowed]
        held = _before(table.state_bytes)[allowed], _before(table.stored_bytes)[allowed], room
        deepest = int(min(problem.stages_max, table.layers, self.chips.sum() // least))
        factors = np.array([problem.first_factor(depth) for depth in range(deepest + 1)], dtype=float)
        return times, held, (factors, float(problem.last_factor))


def _rings(problem: MixProblem, table: MixTable, replicas: int) -> Floats:
    """Time the ring of every span of layers, by (choice, first layer, end), among so many replicas."""
    weights = problem.weights_before
    spans = np.maximum(weights[None, :] - weights[:, None], 0.0)
    each = [problem.reduce_s(spans / problem.shares(c.tp), replicas, c.chip_class, c.chip_class) for c in table.choices]
    return np.stack([np.asarray(rows, dtype=float) for rows in each])


def _ways(table: MixTable, allowed: Integers, chips: Integers) -> Integers | None:
    """Count out the ways to use a replica's chips: by (way, choice), the way without that choice's chips, or -1.

    Way 0 uses none. None where there is nothing to use or there are too many ways.
    """
    if not len(allowed):
        return None
    units = np.array([np.gcd.reduce(table.degrees[allowed][table.classes[allowed] == c]) for c in range(len(chips))])
    most = [int(count // unit) if unit else 0 for count, unit in zip(chips, units, strict=True)]
    ways = list(product(*(range(each + 1) for each in most)))
    if not 1 < len(ways) <= WAYS_MAX:
        return None
    numbers = {way: number for number, way in enumerate(ways)}
    steps = np.full((len(ways), len(allowed)), -1, dtype=np.int64)
    for number, way in enumerate(ways):
        for row, choice in enumerate(allowed):
            index = int(table.classes[choice])
            less = list(way)
            less[index] -= int(table.degrees[choice] // units[index])
            steps[number, row] = numbers.get(tuple(less), -1)
    return steps


def _before(values: Floats) -> Floats:
    """Sum values by (choice, layer) over the layers before each, and over all."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
