"""Other numbers of chips for offers whose price counts: of one class at a time some more or fewer, as long as it helps.

A ladder for all classes together passes by what lies between its rungs, such as all of one class and most of another.
Must not know what makes an offer the better one: it is given the order.
"""

from collections.abc import Callable, Iterator, Sequence

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.counts import ladder_counts
from argosy.plan.search.offers import TIMED_OTHERS, Offer, sizes_of
from argosy.plan.search.search import Search

# So many rungs up and down of each class are tried, and so many numbers of chips in all.
RUNGS, TRIED_MAX = 2, 72

Order = Callable[[Offer], tuple[float, float, float]]
"""Gives what offers are sorted by: less is better."""


def resized(
    search: Search, job: Job, starts: Sequence[Offer], classes: Sequence[ChipClass], order: Order
) -> list[Offer]:
    """Give the offers met on the way from some to better numbers of chips. classes: all that the job could use."""
    batch, found = job.train.global_batch_size, list[Offer]()
    tried: set[object] = set()
    for best in starts:
        while len(tried) < TRIED_MAX:
            near: list[Offer] = []
            for parts in neighbours(job, best, classes):
                if sizes_of(parts) not in tried and len(tried) < TRIED_MAX:
                    tried.add(sizes_of(parts))
                    timed = search.estimates(parts, batch, TIMED_OTHERS, chips_min=job.chips.minimum)
                    near += [Offer(timed=one.timed, parts=parts) for one in timed]
            found += near
            better = min(near, key=order, default=best)
            if order(better) >= order(best):
                break
            best = better
    return found


def neighbours(job: Job, offer: Offer, classes: Sequence[ChipClass]) -> Iterator[tuple[Part, ...]]:
    """Give the numbers of chips that differ in one class, within the job's caps."""
    used = offer.timed.draft.chips
    nodes = {kind.name: -(-used.get(kind.name, 0) // kind.chips_per_node) for kind in classes}
    for changed in classes:
        for count in counts_near(nodes[changed.name], changed.nodes):
            taken = {**nodes, changed.name: count}
            parts = tuple(
                Part(chip_class=kind, chips=taken[kind.name] * kind.chips_per_node)
                for kind in classes
                if taken[kind.name]
            )
            if parts and within_caps(job, parts):
                yield parts


def within_caps(job: Job, parts: Sequence[Part]) -> bool:
    """Tell whether a job may have so many chips, by their number and their power."""
    most, power_kw = job.chips.maximum, job.objective.power_kw
    draw_w = sum(part.chips * (part.chip_class.chip.tdp_w or 0.0) for part in parts)
    few = most is None or sum(part.chips for part in parts) <= most
    return few and (power_kw is None or draw_w <= power_kw * 1e3)


def counts_near(nodes: int, most: int) -> list[int]:
    """List counts of nodes near one: the next ones, rungs up and down, and none.

    >>> counts_near(32, 32), counts_near(12, 32), counts_near(0, 4)
    ([0, 16, 24, 31], [0, 7, 8, 11, 13, 16, 24], [1, 2])
    """
    rungs = [0, *sorted(ladder_counts(most)), most]
    below, above = [c for c in rungs if c < nodes][-RUNGS:], [c for c in rungs if c > nodes][:RUNGS]
    near = {0, nodes - 1, nodes + 1, *below, *above} - {nodes}
    return sorted(count for count in near if 0 <= count <= most)
