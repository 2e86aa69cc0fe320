"""What summing gradients costs a mix of replicas: among a layer's holders on one class of chips, then across classes.

Three phases, each ended by its slowest stage: scatter-reduce inside the class, all-reduce of the pieces across classes,
gather inside the class. Layers with the same holders share their rings. Must not know how the replicas were found.
"""

from collections.abc import Sequence
from itertools import pairwise, permutations

import numpy as np

from argosy.plan.mix_tables import Floats, MixProblem, Template

# Steps of the search for the bytes that a ring can sum in time: 2 % each, down to a thousandth.
STEP, STEPS_MAX = 0.98, 342

Part = tuple[Template, int]
# For each run of layers: first, end, and by class of chips (holders, their smallest TP degree).
Runs = list[tuple[int, int, dict[int, tuple[int, int]]]]


def sync_s(problem: MixProblem, parts: Sequence[Part]) -> tuple[float, float]:
    """Give the seconds inside classes and across classes."""
    runs = _runs(parts)
    weights = problem.weights_before
    inside, across = [], []
    for first, end, holders in runs:
        size = float(weights[end] - weights[first])
        inside.append({c: problem.reduce_s(size / tp, members, c, c) for c, (members, tp) in holders.items()})
        piece = size / min(members * tp for members, tp in holders.values())
        pairs = permutations(holders, 2)
        across.append(max((problem.reduce_s(piece, len(holders), *pair) for pair in pairs), default=0.0))
    totals = [(0.0, 0.0)]
    for template, _ in parts:
        for first, end, choice in zip(template.starts, template.ends, template.choices, strict=True):
            mine = [index for index, run in enumerate(runs) if first <= run[0] and run[1] <= end]
            total_s = sum(inside[index][choice.chip_class] for index in mine), sum(across[index] for index in mine)
            totals.append(total_s)
    return max(total[0] for total in totals), max(total[1] for total in totals)


def heaviest_stages(problem: MixProblem, parts: Sequence[Part]) -> Floats:
    """Give by class the most bytes that one of its chips sums; 0 where it has no stage."""
    heaviest = np.zeros(len(problem.counts))
    weights = problem.weights_before
    for template, _ in parts:
        for first, end, choice in zip(template.starts, template.ends, template.choices, strict=True):
            share = float(weights[end] - weights[first]) / choice.tp
            heaviest[choice.chip_class] = max(heaviest[choice.chip_class], share)
    return heaviest


def ring_members(problem: MixProblem, parts: Sequence[Part]) -> Floats:
    """Give by class the most members that any of its rings has; 2 where it has none."""
    members = np.full(len(problem.counts), 2.0)
    for _, _, holders in _runs(parts):
        for chip_class, (count, _) in holders.items():
            members[chip_class] = max(members[chip_class], count)
    return members


def byte_limits(problem: MixProblem, seconds: float, members: Floats) -> Floats:
    """Give by class the most bytes, of all gradients, that a ring of so many members sums in so many seconds.

    Searched from the top, for small messages may take longer than larger ones.
    """
    limits = np.zeros(len(members))
    total = float(problem.weights_before[-1])
    for chip_class, count in enumerate(members):
        size = total
        for _ in range(STEPS_MAX):
            if problem.reduce_s(size, max(2, round(count)), chip_class, chip_class) <= seconds:
                limits[chip_class] = size
                break
            size *= STEP
    return limits


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
