"""One step as pictures and tables: the timeline predicted and measured, and what crosses which wire.

Turns timelines and traces into rows of `cli.charts`. It times nothing itself but asks `plan.timeline`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.cli.charts import Row, Span, row_chart
from argosy.cli.tracefile import NAMES, RankOp, RankOps
from argosy.contracts.plan import Exchange, Plan, Wire
from argosy.network.wires import send_ms
from argosy.plan.timeline import Op, Timeline, simulate

# More rows than these are not read; alike replicas look alike anyway.
ROWS_MAX = 32
STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WireUse:
    """What one wire carries in a step. hidden: share of its gradient exchange that costs no time; None without any."""

    wire: Wire
    gradient_bytes: float
    activation_bytes: float
    busy: float | None
    hidden: float | None


def predicted_rows(plan: Plan, timeline: Timeline) -> list[Row]:
    """Lay out the timeline: a row a stage, a row a wire that carries exchanges."""
    stages = [(r, s) for r, replica in enumerate(plan.replicas) for s in range(len(replica.stages))]
    rows = []
    for r, s in stages[:ROWS_MAX]:
        spans = [_op_span(op) for op in timeline.ops if (op.replica, op.stage) == (r, s)]
        rows.append(Row(label=stage_label(plan, r, s), spans=tuple(spans)))
    for wire in dict.fromkeys(item.wire for item in timeline.moved):
        moved = [item for item in timeline.moved if item.wire == wire]
        spans = [
            Span(
                start=item.start_ms,
                end=item.end_ms,
                kind="X",
                text=f"{item.kind} of {unit_text(item.unit)}: {item.start_ms:.1f} to {item.end_ms:.1f} ms",
            )
            for item in moved
        ]
        rows.append(Row(label=wire, spans=tuple(spans)))
    return rows


def measured_rows(plan: Plan, traces: Sequence[RankOps], step: int) -> tuple[list[Row], float]:
    """Lay out what the ranks did from the barrier before a step to its own; gives the step's length in ms too."""
    zero_ms, end_ms = step_window(traces, step)
    rows, moved = [], []
    for trace in traces:
        ops = [op for op in trace.ops if op.step == (step - 1 if op.kind == "U" else step)]
        moved += [op for op in ops if op.kind == "X"]
        if trace.tp_index == 0:
            spans = tuple(_rank_span(op, zero_ms) for op in ops if op.kind != "X")
            rows.append(Row(label=stage_label(plan, trace.replica, trace.stage), spans=spans))
    rows = rows[:ROWS_MAX]
    wire_of = {exchange.unit: exchange.wire for exchange in plan.exchanges}
    for wire in dict.fromkeys(wire_of.values()):
        on_wire = [op for op in moved if op.unit is not None and wire_of.get(op.unit) == wire]
        if on_wire:
            rows.append(Row(label=wire, spans=tuple(_rank_span(op, zero_ms) for op in on_wire)))
    return rows, end_ms - zero_ms


def step_window(traces: Sequence[RankOps], step: int) -> tuple[float, float]:
    """Find the barriers around a step: updates begin right after them."""
    begins = [(op.step, op.span_ms[0]) for trace in traces for op in trace.ops if op.kind == "U"]
    before, after = (min((ms for at, ms in begins if at == wanted), default=0.0) for wanted in (step - 1, step))
    return before, after


def middle_step(traces: Sequence[RankOps]) -> int | None:
    """Choose a step to show: the middle one that was traced whole, from the second on; None when there is none."""
    last = min((trace.ops[-1].step for trace in traces if trace.ops), default=0)
    return max(2, last // 2) if last >= 2 else None


def timeline_chart(rows: Sequence[Row], end_ms: float) -> str:
    """Draw rows of one step."""
    return row_chart(rows, max(end_ms, max((span.end for row in rows for span in row.spans), default=0.0)), "ms")


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
        if not exchanges and not activations:
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


def stage_label(plan: Plan, replica: int, stage: int) -> str:
    """Name a row: replica, stage, chips and layers."""
    held = plan.replicas[replica].stages[stage]
    layers = f"layers {held.first_layer}-{held.end_layer - 1}"
    tp = f" x{held.tp}" if held.tp > 1 else ""
    return f"{replica}.{stage} {held.chip_class}{tp}, {layers}"


def unit_text(unit: int) -> str:
    """Name a unit for people."""
    return "the embedding" if unit < 0 else f"unit {unit}"


def _op_span(op: Op) -> Span:
    what = NAMES[op.kind] if op.microbatch < 0 else f"{NAMES[op.kind]} {op.microbatch}"
    text = f"{what}: {op.start_ms:.1f} to {op.end_ms:.1f} ms"
    return Span(start=op.start_ms, end=op.end_ms, kind=op.kind, text=text)


def _rank_span(op: RankOp, zero_ms: float) -> Span:
    start, end = (time - zero_ms for time in op.span_ms)
    return Span(start=start, end=end, kind=op.kind, text=f"{op.name}: {start:.1f} to {end:.1f} ms")
