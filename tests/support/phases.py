"""A builder for tests of exchanges by phases: puts replicas into sites and lets gradients cross between them so."""

from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.plan import Exchange, Gather, Plan, Wire
from argosy.network.exchanges import by_phases

Member = tuple[int, int]


def in_sites(the_plan: Plan, sites: Sequence[str], *, unit_bytes: float = 1e5) -> Plan:
    """Put each replica into a site; every unit's gradients cross by phases, or stay where one site holds it.

    unit_bytes: of a unit's gradient.
    """
    replicas = tuple(
        replace(each, stages=tuple(replace(stage, chip_class=f"{site}/cpu") for stage in each.stages))
        for each, site in zip(the_plan.replicas, sites, strict=True)
    )
    inside = {site: Wire(name=site, gbps=1 + i, one_way_ms=0.1) for i, site in enumerate(sorted(set(sites)))}
    long = Wire(name="long", gbps=0.2, one_way_ms=0.25, shared=True)
    wires = {wire.name: wire for wire in (long, *the_plan.wires, *inside.values())}
    the_plan = replace(the_plan, replicas=replicas, wires=tuple(wires.values()))
    exchanges = []
    for unit in range(-1, the_plan.num_layers + 1):
        members = holders(the_plan, unit)
        of_site = {
            site: [(r, s) for r, s in members if sites[r] == site] for site in sorted({sites[r] for r, _ in members})
        }
        if len(members) < 2:
            continue
        halves = 2 if the_plan.zero_stage else 1
        payload = 2 * (len(members) - 1) / len(members) * unit_bytes / halves
        wire = "long" if len(of_site) > 1 else sites[members[0][0]]
        flat = Exchange(
            unit=unit,
            members=members,
            wire=wire,
            wire_bytes=payload,
            gather_bytes=payload if the_plan.zero_stage else 0.0,
        )
        phases = [
            gather_inside(some, len(some), unit_bytes, inside[site]) for site, some in of_site.items() if len(some) > 1
        ]
        count, gathered = len(of_site), 1.0 if the_plan.zero_stage else 0.0
        sums = 2 * (count - 1) / count * unit_bytes
        exchanges.append(
            by_phases(flat, sums, phases, the_plan.wires, sites=count, gathered=gathered) if count > 1 else flat
        )
    return replace(the_plan, exchanges=tuple(exchanges))


def gather_inside(members: Sequence[Member], count: int, unit_bytes: float, wire: Wire) -> Gather:
    """State the ring gather of a unit that so many ranks of a site share: (n-1)/n of its bytes, n-1 delays."""
    payload_bytes = unit_bytes * (count - 1) / count
    return Gather(members=tuple(members), wire=wire.name, payload_bytes=payload_bytes, hops=count - 1)


def holders(the_plan: Plan, unit: int) -> tuple[Member, ...]:
    """List the places that hold a unit."""
    return tuple(
        (r, s)
        for r, each in enumerate(the_plan.replicas)
        for s, stage in enumerate(each.stages)
        if unit in the_plan.held_units(stage)
    )
