"""A job's plans in many sizes: on each class alone and on classes together, from all nodes down to the fewest that fit.

What the scheduler's options and the Pareto front are made of. Must not know which size anybody prefers.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job, Objective
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.planner import plan_job
from argosy.plan.search.fit import usable_classes
from argosy.plan.search.question import Asked
from argosy.plan.search.sizer import Sizer

Progress = Callable[[int, int], None]
"""Told how many sizes were planned, of how many."""
# Each size has half the nodes of the one before, so no fleet has many more.
SIZES_MAX = 24
# Of more classes than this no pairs are tried: all together, those of each site, and each alone.
PAIRED_CLASSES_MAX = 4


def sized_plans(
    job: Job,
    shape: ModelShape,
    classes: Sequence[ChipClass],
    long_links: Sequence[LongLink],
    *,
    fleet: str = "",
    progress: Progress = lambda _done, _of: None,
    cheapest: bool = False,
    **asked: Unpack[Asked],
) -> list[Plan]:
    """Plan a job for every size of every set of classes worth trying; each plan is the fastest found for its nodes.

    A set is given fewer and fewer nodes until nothing fits. The job's chips.min and max and its power cap hold, the
    rest of its objective does not. Each plan's gap is to the bound on the chips that it uses. cheapest: also what a job
    that wants it cheap is answered. asked: the terms. Raises what `plan_job` does when nothing fits.
    """
    wanted = replace(job, objective=Objective(power_kw=job.objective.power_kw))
    found = [*plan_job(wanted, shape, classes, long_links, fleet=fleet, **asked)]
    if cheapest and all(one.chip.price_per_hour is not None for one in classes):
        cheap = replace(job, objective=replace(wanted.objective, goal="cheapest"), time_limit_s=None)
        found += plan_job(cheap, shape, classes, long_links, fleet=fleet, **asked)
    ladders = [ladder(members) for members in offered_sets(usable_classes(job, classes)[0])]
    count, done = sum(map(len, ladders)), 0
    sizer = Sizer(wanted, shape, classes, long_links, fleet, **asked)
    for sizes in ladders:
        for members in sizes:
            progress(done, count)
            done += 1
            plan = sizer.plan(members, sizes[0])
            if plan is None:
                break
            found.append(plan)
    progress(count, count)
    return [sizer.held(plan) for plan in found]


def offered_sets(classes: Sequence[ChipClass]) -> list[tuple[ChipClass, ...]]:
    """List the sets to try: each class alone, pairs of a few, those of each site, all."""
    sites = dict.fromkeys(c.site for c in classes)
    sets: list[tuple[ChipClass, ...]] = [(c,) for c in classes]
    if len(classes) <= PAIRED_CLASSES_MAX:
        sets += itertools.combinations(classes, 2)
    sets += [tuple(c for c in classes if c.site == site) for site in sites]
    sets.append(tuple(classes))
    return list({tuple(c.name for c in members): members for members in sets}.values())


def ladder(classes: Sequence[ChipClass]) -> list[tuple[ChipClass, ...]]:
    """Give some classes fewer and fewer nodes: all, then powers of two of a class alone, halves of several together."""
    sizes = [tuple(classes)]
    nodes = [c.nodes for c in classes]
    for _ in range(SIZES_MAX):
        if len(nodes) == 1:
            nodes = [1 << max(0, (nodes[0] - 1).bit_length() - 1)]
        else:
            nodes = [max(1, count // 2) for count in nodes]
        smaller = tuple(replace(c, nodes=count) for c, count in zip(classes, nodes, strict=True))
        if smaller == sizes[-1]:
            break
        sizes.append(smaller)
    return sizes


def nodes_used(plan: Plan, classes: Sequence[ChipClass]) -> dict[str, int]:
    """Count the whole nodes of each class that a plan takes, in the order of the classes."""
    widths: dict[str, Counter[int]] = {}
    for replica in plan.replicas:
        for stage in plan.places(replica):
            widths.setdefault(stage.chip_class, Counter())[stage.width] += 1
    return {c.name: packed_nodes(widths[c.name], c.chips_per_node) for c in classes if c.name in widths}


def packed_nodes(widths: Counter[int], node_chips: int) -> int:
    """Count the nodes that groups of some widths need. widths: how many groups there are of each.

    Groups whose widths divide a node fill nodes without a gap; others get nodes by themselves.

    >>> packed_nodes(Counter({8: 2, 2: 3, 16: 1}), 8), packed_nodes(Counter({3: 3}), 8)
    (5, 2)
    """
    filled = sum(width * count for width, count in widths.items() if node_chips % width == 0)
    others = [(width, count) for width, count in widths.items() if node_chips % width]
    apart = [
        width // node_chips * count if width > node_chips else -(-count // (node_chips // width))
        for width, count in others
    ]
    return -(-filled // node_chips) + sum(apart)
