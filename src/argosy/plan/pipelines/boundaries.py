"""The wires between the stages of layouts, and how long what is sent takes over them.

Must not know how long stages take.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from argosy.contracts.fleet import LongLink
from argosy.contracts.plan import Wire
from argosy.network.wires import send_ms
from argosy.plan.costs.links import Holder, boundary_wire, same_node
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.places import boundaries

Streams = Mapping[frozenset[str], int]
"""How many ranks send over the link between two sites at once, by the pair of sites."""


def posted_ms(wires: Sequence[Wire], sent: Sequence[float]) -> tuple[list[float], list[float]]:
    """Give for each boundary how long its bytes occupy its wire, and when they are there."""
    posts_ms = [send_ms(wire, bytes_) for wire, bytes_ in zip(wires, sent, strict=True)]
    return posts_ms, [post + wire.one_way_ms for post, wire in zip(posts_ms, wires, strict=True)]


def crossing_streams(layouts: Iterable[Layout]) -> Streams:
    """Count the ranks that send over each pair of sites at once, those of all replicas' boundaries that cross it."""
    streams: Counter[frozenset[str]] = Counter()
    for layout in layouts:
        for before, after in itertools.pairwise(layout.runs):
            sites = frozenset((before.chip_class.site, after.chip_class.site))
            if len(sites) > 1:
                streams[sites] += max(layout.width(before), layout.width(after)) * layout.count
    return streams


def boundary_wires(layout: Layout, links: Sequence[LongLink], streams: Streams) -> tuple[Wire, ...]:
    """Find the wire of each boundary of a layout, one that crosses sites with its share of the link."""
    of_class: Counter[str] = Counter()
    before: list[int] = []
    for place in layout.places:
        before.append(of_class[place.chip_class.name])
        of_class[place.chip_class.name] += 1
    kinds = [
        Holder(
            chip_class=run.chip_class, tp=run.tp, width=layout.width(run), class_stages=of_class[run.chip_class.name]
        )
        for run in layout.kinds
    ]
    holders = [kinds[number] for number in layout.numbers]
    wires: dict[tuple[int, int, bool], Wire] = {}
    found = []
    for a, b in boundaries(layout):
        one, other = holders[a], holders[b]
        near = one.chip_class.name == other.chip_class.name and same_node(one, before[a], before[b])
        like = (layout.numbers[a], layout.numbers[b], near)
        if like not in wires:
            sites = frozenset((one.chip_class.site, other.chip_class.site))
            sharing = streams.get(sites, 1) if len(sites) > 1 else 1
            wires[like] = boundary_wire(one, other, before[a], before[b], sharing, links)
        found.append(wires[like])
    return tuple(found)
