"""Gradient exchanges of one step: when each may begin, and when it ends on its wire.

Shared by the timeline (which knows every rank) and the emulated clock (which is told what the others know). Must not
know how a pipeline orders its work.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Stage, Wire
from argosy.network.wires import Served, Transfer, schedule, send_ms


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
    served = schedule(
        [transfer(plan, e, ready, e.gather_bytes, e.unit) for e, ready in zip(gathered(plan), ready_ms, strict=True)],
        plan.wires,
    )
    return with_inside(gathered(plan), served)


def by_phases(flat: Exchange, gradient_bytes: float, sites: Sequence[tuple[int, Wire]]) -> Exchange:
    """Turn a flat all-reduce across sites into one by phases: summed inside each site, across, spread inside.

    sites: members of each, and the wire that they share inside. Across goes a ring of the sites' sums, 2 (k-1)/k of the
    bytes for k sites; inside, a reduce-scatter before and an all-gather after, (n-1)/n of the bytes each for n members,
    n-1 delays each. The slowest site counts. A flat ring carries 2 (N-1)/N of the bytes for all N members over the long
    wire, so with two sites nearly twice as much.
    """
    count = len(sites)
    inside_ms = (
        2 * (send_ms(wire, gradient_bytes * (members - 1) / members) + (members - 1) * wire.one_way_ms)
        for members, wire in sites
        if members > 1
    )
    return replace(
        flat,
        wire_bytes=2 * (count - 1) / count * gradient_bytes,
        hops=2 * (count - 1),
        inside_ms=max(inside_ms, default=0.0),
    )


def with_inside(exchanges: Sequence[Exchange], served: Sequence[Served]) -> tuple[Served, ...]:
    """Let exchanges across sites end after their phases inside them, which keep no wire busy."""
    return tuple(
        replace(one, end_ms=one.end_ms + exchange.inside_ms) if exchange.inside_ms else one
        for exchange, one in zip(exchanges, served, strict=True)
    )


def gathered(plan: Plan) -> tuple[Exchange, ...]:
    """List the exchanges that end with a gather of updated parameters."""
    return tuple(exchange for exchange in plan.exchanges if exchange.gather_bytes > 0)


def lane_of(plan: Plan, exchange: Exchange) -> tuple[tuple[int, int], ...]:
    """Give the places that share a private wire: virtual stages of one place have the same ranks and ports."""
    if plan.virtual_stages == 1:
        return exchange.members
    return tuple((r, s % len(plan.places(plan.replicas[r]))) for r, s in exchange.members)


def transfer(plan: Plan, exchange: Exchange, ready_ms: float, payload_bytes: float, order: int) -> Transfer:
    """State one exchange as a transfer in the own lane of its members' places."""
    return Transfer(
        wire=exchange.wire,
        ready_ms=ready_ms,
        payload_bytes=payload_bytes,
        lane=lane_of(plan, exchange),
        order=order,
        hops=exchange.hops,
    )
