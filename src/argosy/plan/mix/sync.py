"""What summing gradients costs a mix of replicas, by either of two rules.

One ring: all holders of a layer, whatever their chips, in one ring that is as slow as its slowest pair and works on the
share of its smallest TP degree. Three phases: scatter-reduce among the holders on one class of chips, all-reduce of the
pieces across classes, gather; each is ended by its slowest stage. Layers with the same holders share their rings.
Must not know how the replicas were found.
"""

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import numpy as np

from argosy.plan.mix.tables import Floats, MixProblem, Pipeline, Sums

Part = tuple[Pipeline, int]
# For each run of layers: first, end, and by class of chips (holders, their smallest TP degree).
Runs = list[tuple[int, int, dict[int, tuple[int, int]]]]


def sync_s(problem: MixProblem, parts: Sequence[Part], sums: Sums) -> tuple[float, float]:
    """Give the seconds inside classes and across classes; with one ring all counts as inside."""
    runs = _runs(parts)
    price = _one_ring_s if sums == "one_ring" else _three_phases_s
    prices = [price(problem, first, end, holders) for first, end, holders in runs]
    inside, across = 0.0, 0.0
    for pipeline, _ in parts:
        for first, end, carrier in zip(pipeline.starts, pipeline.ends, pipeline.carriers, strict=True):
            mine = [price for run, price in zip(runs, prices, strict=True) if first <= run[0] and run[1] <= end]
            inside = max(inside, sum(rings[carrier.chip_class] for rings, _ in mine))
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
    cuts = sorted({0, *(end for pipeline, _ in parts for end in pipeline.ends)})
    runs: Runs = []
    for first, end in pairwise(cuts):
        holders: dict[int, tuple[int, int]] = {}
        for pipeline, replicas in parts:
            stage = next(index for index, last in enumerate(pipeline.ends) if first < last)
            carrier = pipeline.carriers[stage]
            members, tp = holders.get(carrier.chip_class, (0, carrier.tp))
            holders[carrier.chip_class] = (members + replicas, min(tp, carrier.tp))
        runs.append((first, end, holders))
    return runs


def spans_of(problem: MixProblem) -> Floats:
    """List the different weights that a stage can have."""
    pairs = [(first, end) for end in range(problem.layers + 1) for first in range(end)]
    return np.unique([problem.weight_of(first, end) for first, end in pairs])
