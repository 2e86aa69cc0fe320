"""The least memory that a model needs on given chips, and the fewest chips of a kind that hold it.

Asks layouts and the search itself; must not know what a job prefers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from argosy.contracts.fleet import ChipClass
from argosy.plan.forms import even_count
from argosy.plan.pipelines.grid import DEPTH_MAX, Part, mixed_layouts, pure_layouts, ways
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.places import needed_gb
from argosy.plan.search.search import BLOCK_MAX, ZERO_ACROSS_MAX, Search

# So many counts of nodes are searched, upward from the fewest whose memory could do.
COUNTS_SEARCHED = 64


def least_gb(search: Search, parts: Sequence[Part], batch: int) -> float:
    """Give the least that the fullest rank needs on some chips, by any layout the search would try; 10^9 bytes.

    parts: one class alone, or several whose pipelines go through all of them. The smallest micro-batch and the most
    recompute need the least. The optimizer's state may be sharded over the replicas of a layout that lies in one site.
    Replicas that are all alike must make up the batch. Infinite where nothing can be laid out, or pipelines do not go
    through so many classes.
    """
    return min((need_gb for need_gb, _ in needs(search, parts, batch)), default=math.inf)


def shallowest(search: Search, part: Part, batch: int) -> Layout | None:
    """Find the layout of the fewest stages that fits in the memory of one class; None where none does."""
    limit_gb = part.chip_class.chip.memory_gb or 0.0
    fitting = [layout for need_gb, layout in needs(search, [part], batch) if need_gb <= limit_gb]
    return min(fitting, key=lambda layout: layout.depth, default=None)


def needs(search: Search, parts: Sequence[Part], batch: int) -> Iterator[tuple[float, Layout]]:
    """Give what the fullest rank needs, 10^9 bytes, of every layout that the search would try, and with every ZeRO."""
    if len(parts) > BLOCK_MAX:
        return
    freedom = replace(search.freedom, sizes=(min(search.freedom.sizes),))
    setting, apart = search.base.setting, len({part.chip_class.site for part in parts}) > 1
    several = len(parts) > 1
    for layout in mixed_layouts(setting, parts, freedom) if several else pure_layouts(setting, parts[0], freedom):
        if batch % layout.sequences:
            continue
        for zero_stage in sorted({family.zero_stage for family in search.families}):
            lockstep = zero_stage > ZERO_ACROSS_MAX
            if lockstep and (several or layout.depth > 1):
                continue
            count = min(layout.count, batch // layout.sequences)
            count = even_count(batch, layout.sequences, count) if lockstep else count
            shards = (1 if apart else count) * layout.cp * layout.ep
            if zero_stage == 0 or shards > 1:
                held = min(layout.depth, -(-batch // (layout.sequences * count)))
                laid = replace(layout, count=count, microbatches=held, zero_stage=zero_stage, shards=shards)
                yield needed_gb(setting, laid), laid


def holds_alone(search: Search, chip_class: ChipClass, batch: int) -> bool:
    """Tell whether some layout that the search would try fits in memory on one class alone."""
    part = Part(chip_class=chip_class, chips=chip_class.chips)
    return least_gb(search, [part], batch) <= (chip_class.chip.memory_gb or 0.0)


def smallest_chips(search: Search, chip_class: ChipClass, batch: int) -> int | None:
    """Find the fewest chips of a class, in whole nodes, that the search finds a plan for; None if no number does.

    What memory a model needs only falls with more nodes, so the fewest that could hold it are found by halving. Whether
    there is a plan may change from one count to the next (a batch may not suit so many replicas), so from there on
    every count is searched, and beyond COUNTS_SEARCHED of them a sixteenth more each time. More nodes than all replicas
    at the greatest depth could use, each as wide as may be, are of no help, nor are several without a network.
    """
    size, limit_gb, setting = chip_class.chips_per_node, chip_class.chip.memory_gb or 0.0, search.base.setting
    # A setting's tables are of one fleet. Inside a site all that counts is whether there is more than one node.
    alone, several = (
        Search(replace(search.base, setting=replace(setting, tables={}, missing={})), search.freedom, search.batch)
        for _ in range(2)
    )

    def part(nodes: int) -> Part:
        return Part(chip_class=replace(chip_class, nodes=nodes), chips=nodes * size)

    def holds(nodes: int) -> bool:
        return least_gb(alone if nodes == 1 else several, [part(nodes)], batch) <= limit_gb

    def fits(nodes: int) -> bool:
        return bool((alone if nodes == 1 else several).estimates([part(nodes)], batch, 1))

    low, most = 0, most_nodes(search, chip_class, batch)
    if not holds(most):
        return None
    first = 1
    while not holds(first):
        low, first = first, min(2 * first, most)
    high = first
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
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


def most_nodes(search: Search, chip_class: ChipClass, batch: int) -> int:
    """Count the nodes that the deepest and widest replicas fill, one for each micro-batch of one sequence.

    Each of the EP ranks of a replica takes a micro-batch, so it is TP x CP that counts.
    """
    if chip_class.nic_gbps <= 0:
        return 1
    shape, laid = search.base.setting.shape, ways(search.base.setting, [chip_class], search.freedom)
    wide = max((plain.runs[0].tp * plain.cp for plain in laid), default=1)
    return -(-wide * min(shape.num_layers, DEPTH_MAX) * batch // chip_class.chips_per_node)
