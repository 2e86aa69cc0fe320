"""The least memory that a model needs on given chips, and the fewest chips of a kind that hold it.

Asks layouts and the search itself; must not know what a job prefers.
"""

from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.fleet import ChipClass
from argosy.plan.pipelines.grid import DEPTH_MAX, Part, mixed_layouts, pure_layouts, tp_degrees
from argosy.plan.pipelines.places import needed_gb
from argosy.plan.search.search import BLOCK_MAX, Search

# So many counts of nodes are searched, upward from the fewest whose memory could do.
COUNTS_SEARCHED = 64


def least_gb(search: Search, parts: Sequence[Part], batch: int) -> float:
    """Give the least that the fullest rank needs on some chips, by any layout the search would try; 10^9 bytes.

    parts: one class alone, or several whose pipelines go through all of them. The smallest micro-batch and the most
    recompute need the least. The optimizer's state may be sharded over the replicas of a layout that lies in one site.
    Replicas that are all alike must make up the batch. Infinite where nothing can be laid out, or pipelines do not go
    through so many classes.
    """
    needs = [float("inf")]
    freedom = replace(search.freedom, sizes=(min(search.freedom.sizes),))
    setting, together = search.base.setting, len(parts) > 1
    if len(parts) > BLOCK_MAX:
        return needs[0]
    apart = len({part.chip_class.site for part in parts}) > 1
    laid = mixed_layouts(setting, parts, freedom) if together else pure_layouts(setting, parts[0], freedom)
    for layout in laid:
        if batch % layout.sequences:
            continue
        count = min(layout.count, -(-batch // layout.sequences))
        least = replace(layout, microbatches=min(layout.depth, -(-batch // (layout.sequences * count))))
        ranks = (1 if apart else count) * layout.cp * layout.ep
        for zero_stage in zero_stages(search, layout.depth, ranks):
            needs.append(needed_gb(setting, replace(least, zero_stage=zero_stage, shards=ranks)))
    return min(needs)


def zero_stages(search: Search, depth: int, ranks: int) -> list[int]:
    """List the ZeRO stages that pipelines of a depth may have: the last two only without a pipeline."""
    stages = {family.zero_stage for family in search.families}
    return [stage for stage in sorted(stages) if (stage < 2 or depth == 1) and (stage == 0 or ranks > 1)]


def holds_alone(search: Search, chip_class: ChipClass, batch: int) -> bool:
    """Tell whether some layout that the search would try fits in memory on one class alone."""
    part = Part(chip_class=chip_class, chips=chip_class.chips)
    return least_gb(search, [part], batch) <= (chip_class.chip.memory_gb or 0.0)


def smallest_chips(search: Search, chip_class: ChipClass, batch: int) -> int | None:
    """Find the fewest chips of a class, in whole nodes, that the search finds a plan for; None if no number does.

    What memory a model needs only falls with more nodes, so the fewest that could hold it are found by halving. Whether
    there is a plan may change from one count to the next (a batch may not suit so many replicas), so from there on
    every count is searched, and beyond COUNTS_SEARCHED of them a sixteenth more each time. More nodes than all replicas
    at the greatest depth and TP could use are of no help.
    """
    size, limit_gb = chip_class.chips_per_node, chip_class.chip.memory_gb or 0.0

    def part(nodes: int) -> Part:
        return Part(chip_class=chip_class, chips=nodes * size)

    def fits(nodes: int) -> bool:
        return bool(search.estimates([part(nodes)], batch, 1))

    shape = search.base.setting.shape
    tp = max(tp_degrees(search.base.setting, [chip_class]))
    low, most = 0, -(-tp * min(shape.num_layers, DEPTH_MAX) * batch // size)
    if least_gb(search, [part(most)], batch) > limit_gb:
        return None
    first = 1
    while least_gb(search, [part(first)], batch) > limit_gb:
        low, first = first, min(2 * first, most)
    high = first
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if least_gb(search, [part(middle)], batch) > limit_gb else (low, middle)
    counts: list[int] = [*range(high, min(high + COUNTS_SEARCHED, most + 1))]
    while counts[-1] < most:
        counts.append(min(counts[-1] + 1 + counts[-1] // 16, most))
    found = next((index for index, nodes in enumerate(counts) if fits(nodes)), None)
    if found is None:
        return None
    low, high = (counts[found - 1] if found else counts[found] - 1), counts[found]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high * size
