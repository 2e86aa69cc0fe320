"""What ranks did, read from `<directory>/trace`: as rows of spans, of all steps or one, and as a Perfetto trace.

One group of rows a node, one row a rank; wires are a group of their own. Must not know how ranks came to write, nor
how rows are drawn.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.cli.files import write_text
from argosy.contracts.codec import decode
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.plan import Plan
from argosy.contracts.rank_trace import HOST, RankOp, RankTrace
from argosy.plan.timing.trace import (
    EXCHANGE,
    ROWS_MAX,
    WIRES,
    Row,
    Span,
    chrome_trace,
    place_label,
    shifted,
    unit_name,
    work_name,
)

CLOCKS = {HOST: "host clock: on an accelerator, when work was launched", "emulated": "emulated clock"}


def read_traces(folder: Path) -> list[RankTrace]:
    """Read every rank's file, in the order of ranks; none when nothing was traced.

    Raises InfrastructureError for a file that can't be read or is of another version.
    """
    try:
        return [decode(path.read_bytes(), RankTrace) for path in sorted(folder.glob("rank-*.json"))]
    except (OSError, BadInputError) as error:
        raise InfrastructureError(f"{folder}: a rank's trace can't be read: {error}") from error


def write_trace(path: Path, folder: Path, plan: Plan) -> None:
    """Write what the ranks did as one Perfetto trace."""
    write_text(path, json.dumps(perfetto(read_traces(folder), plan)))


def perfetto(traces: Sequence[RankTrace], plan: Plan) -> dict[str, Any]:
    """Put ranks' operations into trace events."""
    about = {
        "model": plan.model,
        "fleet": plan.fleet,
        "emulated": plan.emulated,
        "operations_dropped": sum(trace.dropped for trace in traces),
    }
    return chrome_trace(measured_rows(plan, traces), about)


def measured_rows(plan: Plan, traces: Sequence[RankTrace]) -> tuple[Row, ...]:
    """Lay out what the ranks did: a row a rank, grouped by node, and a row a wire that carried exchanges."""
    nodes = {place.rank: place.node for place in plan.placement}
    rows = [
        Row(
            group=f"{nodes[trace.rank]} ({CLOCKS.get(trace.clock, trace.clock)})",
            label=f"rank {trace.rank}: {place_label(plan, trace.replica, trace.stage)}",
            spans=tuple(op_span(op, places(plan, trace)) for op in trace.ops if op.kind != EXCHANGE),
        )
        for trace in traces
    ]
    moved = [op for trace in traces for op in trace.ops if op.kind == EXCHANGE]
    wire_of = {exchange.unit: exchange.wire for exchange in plan.exchanges}
    for wire in dict.fromkeys(wire_of.values()):
        spans = tuple(op_span(op) for op in moved if op.unit is not None and wire_of.get(op.unit) == wire)
        if spans:
            rows.append(Row(group=WIRES, label=wire, spans=spans, overlaps=True))
    return tuple(rows)


def places(plan: Plan, trace: RankTrace) -> int | None:
    """Count the places of a rank's pipeline where each runs several stages; else None."""
    return len(plan.places(plan.replicas[trace.replica])) if plan.virtual_stages > 1 else None


def op_span(op: RankOp, places: int | None = None) -> Span:
    """Describe an operation; on emulated chips the host's times are in its details. places: told of virtual stages."""
    start_ms, end_ms = op.span_ms
    details: dict[str, Any] = {"step": op.step}
    if op.virtual_start_ms is not None:
        details |= {"emulated": True, "wall_start_ms": op.start_ms, "wall_end_ms": op.end_ms}
    name = f"{work_name(op.kind, None)} of {unit_name(op.unit)}" if op.unit is not None else None
    return Span(
        start_ms=start_ms,
        end_ms=end_ms,
        kind=op.kind,
        name=name or work_name(op.kind, op.microbatch, op.stage if places else None),
        chunk=(op.stage or 0) // places if places else 0,
        details=details,
    )


def step_rows(plan: Plan, traces: Sequence[RankTrace], step: int) -> tuple[tuple[Row, ...], float]:
    """Lay out what the ranks did from the barrier before a step to its own; gives the step's length in ms too.

    Of a tensor-parallel group the first rank stands for all; at most ROWS_MAX ranks.
    """
    zero_ms, end_ms = step_window(traces, step)
    first = [trace for trace in traces if trace.tp_index == 0][:ROWS_MAX]
    kept = [
        replace(trace, ops=tuple(op for op in trace.ops if op.step == (step - 1 if op.kind == "U" else step)))
        for trace in first
    ]
    return shifted(measured_rows(plan, kept), -zero_ms), end_ms - zero_ms


def step_window(traces: Sequence[RankTrace], step: int) -> tuple[float, float]:
    """Find the barriers around a step: updates begin right after them."""
    begins = [(op.step, op.span_ms[0]) for trace in traces for op in trace.ops if op.kind == "U"]
    before, after = (min((ms for at, ms in begins if at == wanted), default=0.0) for wanted in (step - 1, step))
    return before, after


def middle_step(traces: Sequence[RankTrace]) -> int | None:
    """Choose a step to show: the middle one that was traced whole, from the second on; None when there is none."""
    last = min((trace.ops[-1].step for trace in traces if trace.ops), default=0)
    return max(2, last // 2) if last >= 2 else None
