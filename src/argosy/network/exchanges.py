"""Gradient exchanges of one step: when each may begin, and when it ends on its wire.

Shared by the timeline (which knows every rank) and the emulated clock (which is told what the others know). Must not
know how a pipeline orders its work.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Gather, Plan, Stage, Wire
from argosy.network.wires import Served, Transfer, find_wire, schedule, send_ms

Run = tuple[Exchange, Sequence[int]]
"""Exchanges that differ in their units alone: one of them, and the units."""
GatherRun = tuple[Gather, Sequence[int]]
"""Gathers that differ in their units alone: one of them, and the units."""


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
    """Serve every exchange of a step, given when each is ready on all its members; same order as plan.exchanges."""
    return serve_runs(plan, runs_of(plan), [(ready,) for ready in ready_ms])


def serve_runs(plan: Plan, runs: Sequence[Run], ready_ms: Sequence[Sequence[float]]) -> tuple[Served, ...]:
    """Serve exchanges in runs, given when each unit of a run is ready on all members; run by run, unit by unit.

    A shared wire has one queue, a private wire one per set of places; ties go to the higher unit, whose gradient comes
    first.
    """
    asked: list[Transfer] = []
    for (one, units), times_ms in zip(runs, ready_ms, strict=True):
        orders = [-unit for unit in units]
        asked += transfers(plan, one, one.wire_bytes, zip(times_ms, orders, strict=True))
    return with_inside([one for one, units in runs for _ in units], schedule(asked, plan.wires))


def serve_gathers(plan: Plan, ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve the parameter gathers that follow a sharded update (ZeRO-1); same order as `gathered(plan)`."""
    gathers = [(gather, (unit,)) for unit, gather in gathered(plan)]
    return serve_gather_runs(plan, gathers, ready_ms)


def serve_gather_runs(plan: Plan, runs: Sequence[GatherRun], ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve gathers in runs, given when the members of each are ready; run by run, unit by unit.

    Ties go to the lower unit, which the next forward needs first.
    """
    asked: list[Transfer] = []
    for (gather, units), time_ms in zip(runs, ready_ms, strict=True):
        asked += transfers(plan, gather, gather.payload_bytes, [(time_ms, unit) for unit in units])
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
        Served(start_ms=one.start_ms, end_ms=one.end_ms + exchange.inside_ms) if exchange.inside_ms else one
        for exchange, one in zip(exchanges, served, strict=True)
    )


def gathered(plan: Plan) -> tuple[tuple[int, Gather], ...]:
    """List what is gathered after a sharded update, with its unit: over the exchange's wire, or inside each site."""
    return tuple((units[0], gather) for gather, units in gather_runs(runs_of(plan)))


def runs_of(plan: Plan) -> list[Run]:
    """See each exchange of a plan as a run of one."""
    return [(exchange, (exchange.unit,)) for exchange in plan.exchanges]


def gather_runs(runs: Iterable[Run]) -> list[GatherRun]:
    """List what is gathered after a sharded update for runs of exchanges."""
    found: list[GatherRun] = []
    for exchange, units in runs:
        whole = [whole_gather(exchange)] if exchange.gather_bytes > 0 else []
        found += [(gather, units) for gather in (*whole, *exchange.gathers)]
    return found


def whole_gather(exchange: Exchange) -> Gather:
    """Give the gather among all members of an exchange, over its wire."""
    return Gather(members=exchange.members, wire=exchange.wire, payload_bytes=exchange.gather_bytes, hops=exchange.hops)


def lane_of(plan: Plan, members: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Give the places that share a private wire: virtual stages of one place have the same ranks and ports."""
    if plan.virtual_stages == 1:
        return members
    return tuple((r, s % len(plan.places(plan.replicas[r]))) for r, s in members)


def transfers(
    plan: Plan, moved: Exchange | Gather, payload_bytes: float, times: Iterable[tuple[float, int]]
) -> list[Transfer]:
    """State like exchanges or gathers as transfers in the lane of their members' places; nothing pays no delay.

    times: when each is ready, and its order.
    """
    lane, hops = lane_of(plan, moved.members), moved.hops if payload_bytes > 0 else 0
    return [
        Transfer(wire=moved.wire, ready_ms=ready_ms, payload_bytes=payload_bytes, lane=lane, order=order, hops=hops)
        for ready_ms, order in times
    ]
