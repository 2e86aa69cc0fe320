"""Gradient exchanges of one step: when each may begin, and when it ends on its wire.

Shared by the timeline (which knows every rank) and the emulated clock (which is told what the others know). Must not
know how a pipeline orders its work.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Gather, Plan, Stage, Wire
from argosy.network.wires import Served, Transfer, find_wire, schedule, send_ms


def gradient_delay_ms(plan: Plan, stage: Stage, unit: int) -> float:
    """Time from the start of the last micro-batch's backward to the moment that a unit's gradient is whole."""
    delays_ms = gradient_delays_ms(plan, stage)
    if unit not in delays_ms:
        raise BadInputError(f"unit {unit} is not on the stage of layers {stage.first_layer}..{stage.end_layer}")
    return delays_ms[unit]


def gradient_delays_ms(plan: Plan, stage: Stage) -> dict[int, float]:
    """Give that time for every unit that a stage holds.

    Backward runs the units from last to first, each for its share; a zero-bubble schedule does so in the part that it
    runs apart for the weights. A tied embedding on a last stage that is not the first too is ready with the head.
    """
    _, backward_ms, weights_ms = plan.parts_ms(stage)
    work_ms = weights_ms if plan.schedule == "zero-bubble" else backward_ms
    units = plan.units(stage)
    done = itertools.accumulate(reversed(stage.backward_shares))
    delays_ms = {unit: work_ms * part for unit, part in zip(reversed(units), done, strict=True)}
    return delays_ms | {unit: delays_ms[plan.num_layers] for unit in plan.held_units(stage) if unit not in delays_ms}


def serve_exchanges(plan: Plan, ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve every exchange of a step, given when each is ready on all its members; same order as plan.exchanges.

    A shared wire has one queue, a private wire one per set of places; ties go to the higher unit, whose gradient comes
    first.
    """
    served = schedule(
        [transfer(plan, e, ready, e.wire_bytes, -e.unit) for e, ready in zip(plan.exchanges, ready_ms, strict=True)],
        plan.wires,
    )
    return with_inside(plan.exchanges, served)


def serve_gathers(plan: Plan, ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve the parameter gathers that follow a sharded update (ZeRO-1); same order as `gathered(plan)`.

    Ties go to the lower unit, which the next forward needs first.
    """
    asked = [
        transfer(plan, gather, ready, gather.payload_bytes, unit)
        for (unit, gather), ready in zip(gathered(plan), ready_ms, strict=True)
    ]
    return schedule(asked, plan.wires)


def by_phases(
    flat: Exchange,
    across_bytes: float,
    inside: Sequence[Gather],
    wires: Sequence[Wire],
    *,
    sites: int,
    gathered: float = 0.0,
) -> Exchange:
    """Turn a flat exchange across sites into one by phases: summed inside each site, across, spread inside.

    across_bytes: of a ring of the sites' sums, 2 (k-1)/k of the gradient's for k sites. inside: what a reduce-scatter
    carries in each site of several holders; as much is gathered afterwards, and the slowest site counts. gathered: with
    ZeRO-1, where the gather follows the update, bytes of a parameter for each byte of its gradient; else 0.
    """
    once_ms = max((scatter_ms(one, wires) for one in inside), default=0.0)
    return replace(
        flat,
        wire_bytes=across_bytes,
        gather_bytes=0.0,
        hops=2 * (sites - 1),
        inside_ms=once_ms if gathered else 2 * once_ms,
        gathers=tuple(replace(one, payload_bytes=gathered * one.payload_bytes) for one in inside) if gathered else (),
    )


def scatter_ms(phase: Gather, wires: Sequence[Wire]) -> float:
    """Time one phase inside a site on idle wires: a scatter, which carries what the gather does."""
    wire = find_wire(wires, phase.wire)
    return send_ms(wire, phase.payload_bytes) + phase.hops * wire.one_way_ms


def with_inside(exchanges: Sequence[Exchange], served: Sequence[Served]) -> tuple[Served, ...]:
    """Let exchanges across sites end after their phases inside them, which keep no wire busy."""
    return tuple(
        replace(one, end_ms=one.end_ms + exchange.inside_ms) if exchange.inside_ms else one
        for exchange, one in zip(exchanges, served, strict=True)
    )


def gathered(plan: Plan) -> tuple[tuple[int, Gather], ...]:
    """List what is gathered after a sharded update, with its unit: over the exchange's wire, or inside each site."""
    found: list[tuple[int, Gather]] = []
    for exchange in plan.exchanges:
        if exchange.gather_bytes > 0:
            found.append((exchange.unit, whole_gather(exchange)))
        found += [(exchange.unit, gather) for gather in exchange.gathers]
    return tuple(found)


def whole_gather(exchange: Exchange) -> Gather:
    """Give the gather among all members of an exchange, over its wire."""
    return Gather(members=exchange.members, wire=exchange.wire, payload_bytes=exchange.gather_bytes, hops=exchange.hops)


def lane_of(plan: Plan, members: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Give the places that share a private wire: virtual stages of one place have the same ranks and ports."""
    if plan.virtual_stages == 1:
        return members
    return tuple((r, s % len(plan.places(plan.replicas[r]))) for r, s in members)


def transfer(plan: Plan, moved: Exchange | Gather, ready_ms: float, payload_bytes: float, order: int) -> Transfer:
    """State an exchange or a gather as a transfer in the own lane of its members' places; nothing pays no delay."""
    return Transfer(
        wire=moved.wire,
        ready_ms=ready_ms,
        payload_bytes=payload_bytes,
        lane=lane_of(plan, moved.members),
        order=order,
        hops=moved.hops if payload_bytes > 0 else 0,
    )
