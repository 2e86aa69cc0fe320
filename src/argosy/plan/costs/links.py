"""Which wire joins what: boundaries of pipelines, gradient rings, tensor-parallel groups, and how fast each is.

Uses what the fleet says (NICs, scale-up links, long links) and a few stated constants; must not know what travels.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import Wire
from argosy.network.wires import BITS_PER_BYTE
from argosy.plan.costs.curves import wire_efficiency

# One-way delays that no file states: a switched hop inside a node, and a few switches inside a site.
SCALE_UP_ONE_WAY_MS = 0.002
SITE_ONE_WAY_MS = 0.005
# What a chip without a stated scale-up link is given: PCIe 4.0 x16, about 25 of 32 GB/s after framing.
PLAIN_SCALE_UP_GBYTES_S = 25.0
# So many ways between sites, and rings through them, are looked up once.
ROUTES_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a copy of a unit: a place of `width` chips of a class, in a pipeline with class_stages of them.

    width: TP x CP x EP; its TP groups have tp of them. one_node: all its chips in use are in one node.
    """

    chip_class: ChipClass
    tp: int
    width: int
    class_stages: int
    one_node: bool = False

    @property
    def gbps(self) -> float:
        """The part of a node's NICs that one ring may use: other places' rings on the same node take the rest."""
        node_chips = self.chip_class.chips_per_node
        width = min(self.width, node_chips)
        share = width / min(width * self.class_stages, node_chips)
        return self.chip_class.nic_gbps * wire_efficiency(self.chip_class) * share


def scale_up_gbytes_s(chip_class: ChipClass) -> float:
    """Give what one chip sends to its peers in the node, 10^9 bytes/s; a default where none is stated."""
    return chip_class.chip.scale_up_gbytes_s or PLAIN_SCALE_UP_GBYTES_S


def all_reduce_ms(chip_class: ChipClass, tp: int, payload_bytes: float) -> float:
    """Time a ring all-reduce among tp chips of one node: 2 (n-1)/n x bytes / bandwidth + 2 (n-1) delays."""
    if tp == 1:
        return 0.0
    sent_ms = ring_bytes(tp, payload_bytes) / (scale_up_gbytes_s(chip_class) * 1e6)
    return sent_ms + 2 * (tp - 1) * SCALE_UP_ONE_WAY_MS


def ring_bytes(members: int, payload_bytes: float) -> float:
    """Give what each member of a ring all-reduce sends: 2 (n-1)/n x bytes (nccl-tests, PERFORMANCE.md)."""
    return 2 * (members - 1) / members * payload_bytes


def boundary_wire(
    before: Holder, after: Holder, index: int, next_index: int, streams: int, links: Sequence[LongLink]
) -> Wire:
    """Find the wire between two places of a replica, as one rank sees it.

    index, next_index: how many places of their class stand before each, in this replica. streams: ranks that send over
    the same long link at once; each gets its share of it.
    """
    if before.chip_class.site != after.chip_class.site:
        link = find_link(before.chip_class.site, after.chip_class.site, links)
        gbps = min(link.gbps / streams, port_gbps(before.chip_class), port_gbps(after.chip_class))
        return Wire(name=f"{link_name(link)} {gbps:.4g}G", gbps=gbps, one_way_ms=link.one_way_ms, long_link=True)
    if before.chip_class.name == after.chip_class.name and same_node(before, index, next_index):
        return scale_up_wire(before.chip_class, 1)
    return site_wire(before.chip_class.site, min(port_gbps(before.chip_class), port_gbps(after.chip_class)))


def same_node(holder: Holder, index: int, other: int) -> bool:
    """Tell whether two places of a class share a node, given that nodes are filled replica by replica."""
    node_chips, chips = holder.chip_class.chips_per_node, holder.width * holder.class_stages
    if holder.chip_class.nodes == 1 or node_chips % chips == 0:
        return True
    return chips % node_chips == 0 and index * holder.width // node_chips == other * holder.width // node_chips


def ring_wire(holders: Sequence[Holder], links: Sequence[LongLink]) -> Wire:
    """Find the wire that bounds a ring through all holders of a unit.

    Across sites it is the long link, shared by all that crosses it. In a site it is what the node with the smallest
    share of its NICs for this ring has; within a single node, the scale-up link.
    """
    sites = sorted({holder.chip_class.site for holder in holders})
    if len(sites) > 1:
        return long_wire(sites, holders, links)
    if all(h.one_node or h.chip_class.nodes == 1 for h in holders) and len({h.chip_class.name for h in holders}) == 1:
        return scale_up_wire(holders[0].chip_class, min(holder.tp for holder in holders))
    return site_wire(sites[0], min(holder.gbps for holder in holders))


def long_wire(sites: Sequence[str], holders: Sequence[Holder], links: Sequence[LongLink]) -> Wire:
    """Find the long link that holds a ring through sites up, no faster than the NICs of the nodes at either end.

    A ring that shares a link with itself sends more over it (`ring_passes`). Its delay is that of the longest way from
    one site to the next. Named after the link, and what it is not of it.
    """
    link, _ = ring_crossing(tuple(sites), tuple(links))
    nics = min(
        sum(
            c.nic_gbps * c.nodes
            for c in {h.chip_class.name: h.chip_class for h in holders if h.chip_class.site == s}.values()
        )
        for s in sites
    )
    gbps = min(link.gbps, nics)
    delay_ms = max(sum(one.one_way_ms for one in route(a, b, links)) for a, b in neighbours(sites))
    name = link_name(link)
    name += f" {gbps:.4g}G" if gbps < link.gbps else ""
    name += f" {delay_ms:.4g}ms" if delay_ms > link.one_way_ms else ""
    return Wire(name=name, gbps=gbps, one_way_ms=delay_ms, shared=True, long_link=True)


def ring_passes(sites: Sequence[str], links: Sequence[LongLink]) -> int:
    """Count how often a ring through sites sends its bytes over its slowest link, in one direction.

    Once in one site, and where every two neighbours of the ring have a link of their own.
    """
    return ring_crossing(tuple(sites), tuple(links))[1] if len(sites) > 1 else 1


@lru_cache(maxsize=ROUTES_KEPT)
def ring_crossing(sites: tuple[str, ...], links: tuple[LongLink, ...]) -> tuple[LongLink, int]:
    """Find the link that takes longest for a ring through sites, in their order, and its passes in one direction."""
    passes: Counter[tuple[LongLink, str]] = Counter()
    for start, end in zip(sites, (*sites[1:], sites[0]), strict=True):
        place = start
        for link in route(start, end, links):
            passes[link, place] += 1
            place = beyond(link, place)
    (link, _), count = max(passes.items(), key=lambda item: item[1] / item[0][0].gbps)
    return link, count


def neighbours(sites: Sequence[str]) -> list[tuple[str, str]]:
    """List the pairs that a ring through sites crosses, each once."""
    pairs = list(itertools.pairwise(sites))
    return [*pairs, (sites[-1], sites[0])] if len(sites) > 2 else pairs


def ring_hops(members: int, sites: int) -> int:
    """Count the delays of its wire that a ring all-reduce pays.

    A byte passes 2 (n-1) of the ring's n edges; in a ring through k sites k of them are long.

    >>> ring_hops(8, 1), ring_hops(2, 2), ring_hops(8, 2)
    (14, 2, 4)
    """
    passed = 2 * (members - 1)
    return passed if sites == 1 else math.ceil(passed / members * sites)


def can_join(sites: Iterable[str], links: Sequence[LongLink]) -> bool:
    """Tell whether a ring can go through sites: whether long links lead from each to the next, through others if so."""
    return all(_route(a, b, tuple(links)) is not None for a, b in neighbours(sorted(set(sites))))


def has_link(site: str, other: str, links: Iterable[LongLink]) -> bool:
    """Tell whether two sites have a long link of their own."""
    return any(set(link.between) == {site, other} for link in links)


def find_link(site: str, other: str, links: Sequence[LongLink]) -> LongLink:
    """Find the fastest long link between two sites."""
    found = [link for link in links if set(link.between) == {site, other}]
    if not found:
        raise BadInputError(f"no long link between {site} and {other}; add one to long_links of the fleet file")
    return max(found, key=lambda link: link.gbps)


def route(site: str, other: str, links: Sequence[LongLink]) -> tuple[LongLink, ...]:
    """Find the way from one site to another over long links: the fewest, of several ways the widest, then the shortest.

    Raises BadInputError where none leads there.
    """
    found = _route(site, other, tuple(links))
    if found is None:
        raise BadInputError(f"no long link leads from {site} to {other}; add one to long_links of the fleet file")
    return found


@lru_cache(maxsize=ROUTES_KEPT)
def _route(site: str, other: str, links: tuple[LongLink, ...]) -> tuple[LongLink, ...] | None:
    reached: dict[str, tuple[LongLink, ...]] = {site: ()}
    farthest = dict(reached)
    while farthest and other not in reached:
        found: dict[str, tuple[LongLink, ...]] = {}
        for place, path in farthest.items():
            for link in links:
                target = beyond(link, place) if place in link.between else place
                if target in reached:
                    continue
                longer = (*path, link)
                found[target] = max(found.get(target, longer), longer, key=_width)
        reached |= found
        farthest = found
    return reached.get(other)


def _width(path: tuple[LongLink, ...]) -> tuple[float, float]:
    return min(link.gbps for link in path), -sum(link.one_way_ms for link in path)


def beyond(link: LongLink, site: str) -> str:
    """Name the other end of a link."""
    return link.between[1] if site == link.between[0] else link.between[0]


def link_name(link: LongLink) -> str:
    """Name a long link by its sites."""
    return "-".join(link.between)


def chip_gbps(chip_class: ChipClass) -> float:
    """Give one chip's share of its node's NICs, Gb/s."""
    return chip_class.nic_gbps / chip_class.chips_per_node


def port_gbps(chip_class: ChipClass) -> float:
    """Give what messages reach of one chip's share of its node's NICs, Gb/s."""
    return chip_gbps(chip_class) * wire_efficiency(chip_class)


def scale_up_wire(chip_class: ChipClass, chips: int) -> Wire:
    """Make the wire inside a node for so many chips that send at once."""
    gbps = scale_up_gbytes_s(chip_class) * BITS_PER_BYTE * chips * wire_efficiency(chip_class)
    return Wire(name=f"{chip_class.name} scale-up {gbps:.4g}G", gbps=gbps, one_way_ms=SCALE_UP_ONE_WAY_MS)


def site_wire(site: str, gbps: float) -> Wire:
    """Make the wire between nodes of a site at a given share of NICs."""
    return Wire(name=f"{site} network {gbps:.4g}G", gbps=gbps, one_way_ms=SITE_ONE_WAY_MS)
