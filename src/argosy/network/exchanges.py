"""Gradient exchanges of one step: when each may begin, and when it ends on its wire.

Shared by the timeline (which knows every rank) and the emulated clock (which is told what the others know). Must not
know how a pipeline orders its work.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Plan, Stage
from argosy.network.wires import Served, Transfer, schedule


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
    work_ms = stage.backward_ms * (stage.weight_share if plan.schedule == "zero-bubble" else 1.0)
    units = plan.units(stage)
    done = itertools.accumulate(reversed(stage.backward_shares))
    delays_ms = {unit: work_ms * part for unit, part in zip(reversed(units), done, strict=True)}
    return delays_ms | {unit: delays_ms[plan.num_layers] for unit in plan.held_units(stage) if unit not in delays_ms}


def serve_exchanges(plan: Plan, ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve every exchange of a step, given when each is ready on all its members; same order as plan.exchanges.

    A shared wire has one queue, a private wire one per set of members; ties go to the higher unit, whose gradient comes
    first.
    """
    served = schedule(
        [transfer(e, ready, e.wire_bytes, -e.unit) for e, ready in zip(plan.exchanges, ready_ms, strict=True)],
        plan.wires,
    )
    return with_inside(plan.exchanges, served)


def serve_gathers(plan: Plan, ready_ms: Sequence[float]) -> tuple[Served, ...]:
    """Serve the parameter gathers that follow a sharded update (ZeRO-1); same order as `gathered(plan)`.

    Ties go to the lower unit, which the next forward needs first.
    """
    served = schedule(
        [transfer(e, ready, e.gather_bytes, e.unit) for e, ready in zip(gathered(plan), ready_ms, strict=True)],
        plan.wires,
    )
    return with_inside(gathered(plan), served)


def with_inside(exchanges: Sequence[Exchange], served: Sequence[Served]) -> tuple[Served, ...]:
    """Let exchanges across sites end after their phases inside them, which keep no wire busy."""
    return tuple(
        replace(one, end_ms=one.end_ms + exchange.inside_ms) if exchange.inside_ms else one
        for exchange, one in zip(exchanges, served, strict=True)
    )


def gathered(plan: Plan) -> tuple[Exchange, ...]:
    """List the exchanges that end with a gather of updated parameters."""
    return tuple(exchange for exchange in plan.exchanges if exchange.gather_bytes > 0)


def transfer(exchange: Exchange, ready_ms: float, payload_bytes: float, order: int) -> Transfer:
    """State one exchange as a transfer in its members' own lane."""
    return Transfer(
        wire=exchange.wire,
        ready_ms=ready_ms,
        payload_bytes=payload_bytes,
        lane=exchange.members,
        order=order,
        hops=exchange.hops,
    )
