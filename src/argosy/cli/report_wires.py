"""What crosses which wire in a step, how busy it is, and how much of it the backward hides.

It times nothing itself but asks `plan.timing.timeline`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.contracts.plan import Exchange, Plan, Wire
from argosy.network.wires import send_ms
from argosy.plan.timing.timeline import simulate

STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WireUse:
    """What one wire carries in a step. hidden: share of its gradient exchange that costs no time; None without any."""

    wire: Wire
    gradient_bytes: float
    activation_bytes: float
    busy: float | None
    hidden: float | None


def wire_uses(plan: Plan) -> list[WireUse]:
    """Add up what every wire carries, and how much of its exchange the backward hides."""
    whole_ms = simulate(plan, steps=STEPS, detail=False).step_ms
    uses = []
    for wire in plan.wires:
        exchanges = [exchange for exchange in plan.exchanges if exchange.wire == wire.name]
        activations = sum(
            2 * replica.microbatches * send.payload_bytes
            for replica in plan.replicas
            for send in replica.sends
            if send.wire == wire.name
        )
        gradients = sum(exchange.wire_bytes + exchange.gather_bytes for exchange in exchanges)
        gradients += sum(
            gather.payload_bytes for one in plan.exchanges for gather in one.gathers if gather.wire == wire.name
        )
        if not gradients and not activations:
            continue
        uses.append(
            WireUse(
                wire=wire,
                gradient_bytes=gradients,
                activation_bytes=activations,
                busy=send_ms(wire, gradients) / whole_ms if wire.shared and whole_ms > 0 else None,
                hidden=hidden_share(plan, exchanges, whole_ms),
            )
        )
    return uses


def hidden_share(plan: Plan, exchanges: Sequence[Exchange], whole_ms: float) -> float | None:
    """Say which share of exchanges costs no time, by timing the plan without them; None where there are none."""
    lane_ms: dict[object, float] = {}
    for exchange in exchanges:
        wire = next(wire for wire in plan.wires if wire.name == exchange.wire)
        lane = None if wire.shared else exchange.members
        lane_ms[lane] = lane_ms.get(lane, 0.0) + send_ms(wire, exchange.wire_bytes + exchange.gather_bytes)
    longest_ms = max(lane_ms.values(), default=0.0)
    if longest_ms <= 0:
        return None
    gone = {id(exchange) for exchange in exchanges}
    rest = replace(plan, exchanges=tuple(one for one in plan.exchanges if id(one) not in gone))
    shown_ms = whole_ms - simulate(rest, steps=STEPS, detail=False).step_ms
    return 1.0 - min(1.0, max(0.0, shown_ms / longest_ms))
