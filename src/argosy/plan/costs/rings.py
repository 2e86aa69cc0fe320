"""Who sums which gradients with whom, over which wire, and how many bytes that takes.

Units held by the same places go round the same ring. Must not know how replicas were found, nor when gradients are
ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import GRADIENT_BYTES, Exchange, Gather, Wire
from argosy.model.memory import rank_parameters_apart
from argosy.network.exchanges import by_phases
from argosy.network.wires import send_ms
from argosy.plan.costs.links import Holder, ring_bytes, ring_hops, ring_passes, ring_wire
from argosy.plan.costs.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A place that holds some units in each of count replicas. copies, ep: TP groups of the place (CP x EP), and EP."""

    holder: Holder
    count: int
    copies: int = 1
    ep: int = 1

    @property
    def site(self) -> str:
        """Where it is."""
        return self.holder.chip_class.site


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Those of a ring who are in one site: held, their ranks (or TP groups), and the wire between them."""

    site: str
    held: tuple[Held, ...]
    count: int
    wire: Wire

    @property
    def hops(self) -> int:
        """Delays of one phase inside, be it a reduce-scatter or a gather."""
        return self.count - 1


@dataclass(frozen=True, kw_only=True)
class Ring:
    """Who exchanges some units with whom, and over which wire.

    held: all holders; members: those that are shown, as (replica, stage), with the site of each. hierarchical: summed
    inside each site first, then across sites, then spread inside them; else one ring goes through all. links: of the
    fleet. weight_bytes: of a parameter as it is gathered after a sharded update.
    """

    wire: Wire
    held: tuple[Held, ...]
    members: tuple[tuple[tuple[int, int], str], ...]
    hierarchical: bool
    links: tuple[LongLink, ...]
    weight_bytes: int = GRADIENT_BYTES

    @property
    def sites(self) -> list[str]:
        """The sites it goes through."""
        return sorted({one.site for one in self.held})

    @property
    def tp(self) -> int:
        """The largest TP degree of its holders."""
        return max(one.holder.tp for one in self.held)

    @property
    def across(self) -> bool:
        """Whether it goes by phases."""
        return self.hierarchical and len(self.sites) > 1

    @cached_property
    def inner(self) -> tuple[Inner, ...]:
        """Who sums inside each site of several ranks."""
        found = []
        for site in self.sites:
            held = tuple(one for one in self.held if one.site == site)
            count = sum(one.count * one.copies for one in held)
            if count > 1:
                found.append(Inner(site=site, held=held, count=count, wire=ring_wire([h.holder for h in held], ())))
        return tuple(found)

    @property
    def wires(self) -> tuple[Wire, ...]:
        """All wires that exchanges and gathers go over."""
        return (self.wire, *(inner.wire for inner in self.inner)) if self.across else (self.wire,)

    def exchange(self, unit: int, gradient_bytes: tuple[float, float], zero_stage: int) -> Exchange:
        """Make a unit's exchange: what is sent once a step (`parts_of_ring`), parameters' bytes after the update.

        By phases only the sums cross, before the update, and each site gathers what it shards. gradient_bytes: of what
        every EP rank has, and of experts.
        """
        passes = ring_passes(self.sites, self.links)
        passed = passed_bytes(self.held, gradient_bytes) * passes
        count, halves = sum(one.count * one.copies for one in self.held), 2 if zero_stage else 1
        weight = self.weight_bytes / GRADIENT_BYTES if zero_stage else 0.0
        summed, gathered = parts_of_ring(zero_stage)
        flat = Exchange(
            unit=unit,
            members=tuple(member for member, _ in self.members),
            wire=self.wire.name,
            wire_bytes=passed * summed,
            gather_bytes=passed * gathered * weight,
            hops=-(-ring_hops(count, len(self.sites)) // halves),
        )
        if not self.across:
            return flat
        sums = passed_bytes(self.held, gradient_bytes, len(self.sites)) * passes
        inside = [self.gather(inner, passed_bytes(inner.held, gradient_bytes) / 2) for inner in self.inner]
        return by_phases(flat, sums, inside, self.wires, sites=len(self.sites), gathered=weight)

    def gather(self, inner: Inner, payload_bytes: float) -> Gather:
        """Make the gather of one site, or the reduce-scatter that carries as much."""
        members = tuple(member for member, site in self.members if site == inner.site)
        return Gather(members=members, wire=inner.wire.name, payload_bytes=payload_bytes, hops=inner.hops)


def make_ring(
    held: Sequence[Held],
    members: tuple[tuple[tuple[int, int], str], ...],
    links: tuple[LongLink, ...],
    *,
    hierarchical: bool,
    weight_bytes: int = GRADIENT_BYTES,
) -> Ring | None:
    """Make the ring of all who hold some units, or None for a single rank (or TP group)."""
    if sum(one.count * one.copies for one in held) < 2:
        return None
    wire = ring_wire([one.holder for one in held], links)
    return Ring(
        wire=wire, held=tuple(held), members=members, hierarchical=hierarchical, links=links, weight_bytes=weight_bytes
    )


def gradient_bytes(setting: Setting, unit: int, tp: int = 1) -> tuple[float, float]:
    """Give the bytes of a unit's gradients, all ranks together: of what every EP rank has, and of experts.

    tp: degree that pads the vocabulary. Worked out once for like layers.
    """
    like = setting.kind(unit)
    key = ("gradients", like, tp)
    if key not in setting.tables:
        setting.tables[key] = [n * GRADIENT_BYTES for n in rank_parameters_apart(setting.cut_shape(tp), like)]
    everywhere, experts = setting.tables[key]
    return float(everywhere), float(experts)


def parts_of_ring(zero_stage: int) -> tuple[float, float]:
    """Say what part of a ring all-reduce a step sends before its update, and what part after it.

    ZeRO-1 scatters the sums, and gathers what it updated. ZeRO-2 scatters in every micro-batch instead, ZeRO-3 gathers
    there too (`costs.sharding`): both are in the stages' times.
    """
    return ((1.0, 0.0), (0.5, 0.5), (0.0, 0.5), (0.0, 0.0))[zero_stage]


def ring_ms(held: Sequence[Held], gradient_bytes: tuple[float, float], links: Sequence[LongLink]) -> float:
    """Time a ring all-reduce of so many bytes, of what every EP rank has and of experts, without its delays."""
    return send_ms(ring_wire([one.holder for one in held], links), passed_bytes(held, gradient_bytes))


def passed_bytes(held: Sequence[Held], gradient_bytes: tuple[float, float], sites: int = 0) -> float:
    """Give what passes a node, or a long link, for one unit: a ring's 2 (n-1)/n of its bytes, all TP slices together.

    What every EP rank has is summed over replicas, CP and EP ranks, experts over replicas and CP ranks only. A place of
    several nodes has its experts spread over them. sites: so many sums, one a site, are exchanged instead.
    """
    dense, experts = gradient_bytes
    everywhere = sites or sum(one.count * one.copies for one in held)
    own = sites or sum(one.count * one.copies // one.ep for one in held)
    spread = 1.0 if sites else min(max(1.0, e.holder.tp * e.ep / e.holder.chip_class.chips_per_node) for e in held)
    return ring_bytes(everywhere, dense) + ring_bytes(own, experts) / spread


def holder_of(chip_class: ChipClass, tp: int, width: int, class_stages: int, used: int) -> Holder:
    """Name a holder. used: chips of its class that are in use."""
    one_node = used <= chip_class.chips_per_node
    return Holder(chip_class=chip_class, tp=tp, width=width, class_stages=class_stages, one_node=one_node)
