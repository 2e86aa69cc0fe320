"""What summing gradients costs a mix of replicas, by either of two rules, and what stages may hold to keep it short.

One ring: all holders of a layer, whatever their chips, in one ring that is as slow as its slowest pair and works on the
share of its smallest TP degree. Three phases: scatter-reduce among the holders on one class of chips, all-reduce of the
pieces across classes, gather; each is ended by its slowest stage. Layers with the same holders share their rings.
Must not know how the replicas were found.
"""

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import numpy as np

from argosy.plan.mix_tables import Floats, MixProblem, Sums, Template

Part = tuple[Template, int]
# For each run of layers: first, end, and by class of chips (holders, their smallest TP degree).
Runs = list[tuple[int, int, dict[int, tuple[int, int]]]]
Floors = tuple[int, ...]
"""By class the smallest TP degree that its stages may have; 0 where the class is not used."""
# Limits that are nearer than this to the one before are left out.
THINNED = 0.97


def sync_s(problem: MixProblem, parts: Sequence[Part], sums: Sums) -> tuple[float, float]:
    """Give the seconds inside classes and across classes; with one ring all counts as inside."""
    runs = _runs(parts)
    price = _one_ring_s if sums == "one_ring" else _three_phases_s
    prices = [price(problem, first, end, holders) for first, end, holders in runs]
    inside, across = 0.0, 0.0
    for template, _ in parts:
        for first, end, choice in zip(template.starts, template.ends, template.choices, strict=True):
            mine = [price for run, price in zip(runs, prices, strict=True) if first <= run[0] and run[1] <= end]
            inside = max(inside, sum(rings[choice.chip_class] for rings, _ in mine))
            across = max(across, sum(pieces for _, pieces in mine))
    return inside, across


def _one_ring_s(
    problem: MixProblem, first: int, end: int, holders: dict[int, tuple[int, int]]
) -> tuple[dict[int, float], float]:
    members, share = sum(count for count, _ in holders.values()), problem.shares(min(tp for _, tp in holders.values()))
    pairs = [(a, b) for a, b in product(holders, repeat=2) if a != b or holders[a][0] > 1]
    size = problem.weight_of(first, end) / share
    ring_s = max((float(problem.reduce_s(size, members, *pair)) for pair in pairs), default=0.0)
    return dict.fromkeys(holders, ring_s), 0.0


def _three_phases_s(
    problem: MixProblem, first: int, end: int, holders: dict[int, tuple[int, int]]
) -> tuple[dict[int, float], float]:
    size = problem.weight_of(first, end)
    rings = {
        c: float(problem.reduce_s(size / problem.shares(tp), members, c, c)) for c, (members, tp) in holders.items()
    }
    piece = size / min(members * problem.shares(tp) for members, tp in holders.values())
    pairs = permutations(holders, 2)
    return rings, max((float(problem.reduce_s(piece, len(holders), *pair)) for pair in pairs), default=0.0)


def _runs(parts: Sequence[Part]) -> Runs:
    cuts = sorted({0, *(end for template, _ in parts for end in template.ends)})
    runs: Runs = []
    for first, end in pairwise(cuts):
        holders: dict[int, tuple[int, int]] = {}
        for template, replicas in parts:
            stage = next(index for index, last in enumerate(template.ends) if first < last)
            choice = template.choices[stage]
            members, tp = holders.get(choice.chip_class, (0, choice.tp))
            holders[choice.chip_class] = (members + replicas, min(tp, choice.tp))
        runs.append((first, end, holders))
    return runs


def levels(problem: MixProblem, floors: Floors, sums: Sums) -> list[tuple[float, Floats]]:
    """List (seconds of the sum, the weights that a stage may hold by class to keep them), loosest first.

    The seconds are an estimate: rings of as many members as whole pools cut into such stages make.
    """
    used = [index for index, floor in enumerate(floors) if floor]
    spans = spans_of(problem)
    spans = spans[spans >= problem.weight_bytes.max()]
    times = {index: _ring_times(problem, floors, used if sums == "one_ring" else [index], spans) for index in used}
    if not len(spans) or not spans[-1]:
        return [(0.0, np.full(len(floors), np.inf))]
    kept: list[tuple[float, Floats]] = []
    for seconds in sorted({float(value) for each in times.values() for value in each}, reverse=True):
        if kept and seconds > kept[-1][0] * THINNED:
            continue
        most = np.zeros(len(floors))
        for index, each in times.items():
            within = spans[each <= seconds]
            most[index] = within[-1] if len(within) else 0.0
        kept.append((seconds, most))
    return kept


def spans_of(problem: MixProblem) -> Floats:
    """List the different weights that a stage can have."""
    pairs = [(first, end) for end in range(problem.layers + 1) for first in range(end)]
    return np.unique([problem.weight_of(first, end) for first, end in pairs])


def _ring_times(problem: MixProblem, floors: Floors, together: Sequence[int], spans: Floats) -> Floats:
    """Time rings over some classes by the weights they hold, slowest pairs counted, never less for more."""
    share = problem.shares(min(floors[c] for c in together))
    chips = sum(problem.counts[c] / floors[c] for c in together)
    stages = np.ceil(problem.weights_before[-1] / np.maximum(spans, 1.0))
    members = np.clip(np.floor(chips / stages), 2, max(2, problem.batch)).astype(np.int64)
    times = np.max([problem.reduce_s(spans / share, members, *pair) for pair in product(together, repeat=2)], axis=0)
    return np.asarray(np.maximum.accumulate(times))
