"""Who sums which gradients with whom, over which wire, and how many bytes that takes.

Units held by the same places go round the same ring. Must not know how replicas were found, nor when gradients are
ready.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import Exchange, Wire
from argosy.network.wires import send_ms
from argosy.plan.layouts import Layout, Run
from argosy.plan.links import Holder, ring_bytes, ring_hops, ring_wire
from argosy.plan.setting import Setting as Setting
from argosy.plan.tables import gradient_sums
from argosy.plan.templates import Template


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
class Ring:
    """Who exchanges some units with whom, and over which wire.

    held: all holders; members: those that are shown, as (replica, stage). hierarchical: summed inside each site first,
    then across sites, then spread inside them; else one ring goes through all. links: of the fleet.
    """

    wire: Wire
    held: tuple[Held, ...]
    members: tuple[tuple[int, int], ...]
    hierarchical: bool
    links: tuple[LongLink, ...]

    @property
    def sites(self) -> list[str]:
        """The sites it goes through."""
        return sorted({one.site for one in self.held})

    def exchange(self, unit: int, gradient_bytes: tuple[float, float], zero_stage: int) -> Exchange:
        """Make a unit's exchange; with ZeRO half goes before the update and half after.

        gradient_bytes: of what every EP rank has, and of experts.
        """
        halves = 2 if zero_stage else 1
        across = self.hierarchical and len(self.sites) > 1
        count = len(self.sites) if across else sum(one.count * one.copies for one in self.held)
        payload = passed_bytes(self.held, gradient_bytes, count if across else 0) / halves
        return Exchange(
            unit=unit,
            members=self.members,
            wire=self.wire.name,
            wire_bytes=payload,
            gather_bytes=payload if zero_stage else 0.0,
            hops=-(-ring_hops(count, len(self.sites)) // halves),
            inside_ms=inside_ms(self.held, gradient_bytes, self.links) if across else 0.0,
        )


def make_ring(
    held: Sequence[Held], members: tuple[tuple[int, int], ...], links: tuple[LongLink, ...], *, hierarchical: bool
) -> Ring | None:
    """Make the ring of all who hold some units, or None for a single rank (or TP group)."""
    if sum(one.count * one.copies for one in held) < 2:
        return None
    wire = ring_wire([one.holder for one in held], links)
    return Ring(wire=wire, held=tuple(held), members=members, hierarchical=hierarchical, links=links)


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


def inside_ms(held: Sequence[Held], gradient_bytes: tuple[float, float], links: Sequence[LongLink]) -> float:
    """Time the phases inside sites of an exchange across them, in the slowest site: scatter before, gather after."""
    times = []
    for site in {one.site for one in held}:
        some = [one for one in held if one.site == site]
        count = sum(one.count * one.copies for one in some)
        if count > 1:
            wire = ring_wire([one.holder for one in some], links)
            times.append(send_ms(wire, passed_bytes(some, gradient_bytes)) + ring_hops(count, 1) * wire.one_way_ms)
    return max(times, default=0.0)


def holder_of(chip_class: ChipClass, tp: int, width: int, class_stages: int) -> Holder:
    """Name a holder."""
    return Holder(chip_class=chip_class, tp=tp, width=width, class_stages=class_stages)


def exposed_ms(setting: Setting, template: Template, links: Sequence[LongLink]) -> float:
    """Guess what of the gradients' exchange among like replicas no backward hides.

    A stage's gradients travel while it and the stages before it still run their last backwards. With ZeRO what is
    gathered after the update is not hidden.
    """
    layout = template.layout
    if layout.count * layout.cp * layout.ep < 2:
        return 0.0
    runs = {run.chip_class.name: run for run in layout.runs}
    factors = {name: ring_factors(layout, run, links) for name, run in runs.items()}
    per_place = np.array([factors[run.chip_class.name] for run in layout.places])
    per_stage = np.tile(per_place, (layout.virtual_stages, 1))
    starts, ends = np.array(template.cut.starts), np.array(template.cut.ends)
    sizes = [sums[ends] - sums[starts] for sums in gradient_sums(setting)]
    ring_ms = per_stage[:, 0] * sizes[0] + per_stage[:, 1] * sizes[1]
    gathered_ms = ring_ms / 2 if layout.zero_stage else 0.0 * ring_ms
    drained = np.cumsum(template.backward_ms)
    return float((gathered_ms + np.maximum(0.0, ring_ms - gathered_ms - drained)).max())


def ring_factors(layout: Layout, run: Run, links: Sequence[LongLink]) -> tuple[float, float]:
    """Give the ms that a byte of a stage's gradients takes among like replicas: of what EP ranks share, of experts."""
    holder = holder_of(run.chip_class, run.tp, layout.width(run), run.places)
    held = [Held(holder=holder, count=layout.count, copies=layout.cp * layout.ep, ep=layout.ep)]
    wire = ring_wire([holder], links)
    return send_ms(wire, passed_bytes(held, (1.0, 0.0))), send_ms(wire, passed_bytes(held, (0.0, 1.0)))
