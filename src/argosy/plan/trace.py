"""Work over time as rows of spans, and rows as a trace in the Chrome trace format, which ui.perfetto.dev opens.

One form for a timeline that was predicted and one that was measured. The format: "Trace Event Format" of the Chromium
project; complete events (ph X) for work, asynchronous ones (ph b, e) for wires, where transfers overlap, in
microseconds. Must not time anything, nor draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argosy.contracts.plan import Plan
from argosy.plan.timeline import Moved, Op, Timeline

US_PER_MS = 1000.0
EXCHANGE = "X"
NAMES = {"F": "forward", "B": "backward", "U": "update", EXCHANGE: "exchange"}
WIRES = "wires"
# More rows than these are not read; alike replicas look alike anyway.
ROWS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One piece of work or one transfer. kind: of NAMES. details: what a trace tells of it besides."""

    start_ms: float
    end_ms: float
    kind: str
    name: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one worker did. group: rows that belong together. overlaps: its spans may lie over one another."""

    group: str
    label: str
    spans: tuple[Span, ...]
    overlaps: bool = False


def timeline_rows(plan: Plan, timeline: Timeline) -> tuple[Row, ...]:
    """Lay out a timeline: a row a stage, grouped by replica, and a row a wire that carries exchanges.

    Replicas beyond ROWS_MAX stages are left out; `shown_replicas` counts the others.
    """
    rows = [
        Row(
            group=f"replica {r}",
            label=stage_label(plan, r, s),
            spans=tuple(op_span(op) for op in timeline.ops if (op.replica, op.stage) == (r, s)),
        )
        for r, replica in enumerate(plan.replicas[: shown_replicas(plan)])
        for s in range(len(replica.stages))
    ]
    for wire in dict.fromkeys(item.wire for item in timeline.moved):
        spans = tuple(moved_span(item) for item in timeline.moved if item.wire == wire)
        rows.append(Row(group=WIRES, label=wire, spans=spans, overlaps=True))
    return tuple(rows)


def shown_replicas(plan: Plan) -> int:
    """Count the replicas that fit into ROWS_MAX rows, at least one."""
    rows = 0
    for index, replica in enumerate(plan.replicas):
        rows += len(replica.stages)
        if rows > ROWS_MAX:
            return max(1, index)
    return len(plan.replicas)


def stage_label(plan: Plan, replica: int, stage: int) -> str:
    """Name a stage: replica, stage, chips and layers."""
    held = plan.replicas[replica].stages[stage]
    tp = f" x{held.tp}" if held.tp > 1 else ""
    return f"{replica}.{stage} {held.chip_class}{tp}, layers {held.first_layer}-{held.end_layer - 1}"


def op_span(op: Op) -> Span:
    """Describe a piece of work."""
    name = work_name(op.kind, op.microbatch if op.microbatch >= 0 else None)
    return Span(start_ms=op.start_ms, end_ms=op.end_ms, kind=op.kind, name=name)


def moved_span(item: Moved) -> Span:
    """Describe an exchange or gather."""
    details = {"wire": item.wire, "waited_ms": item.start_ms - item.ready_ms, "members": len(item.members)}
    name = f"{item.kind} of {unit_name(item.unit)}"
    return Span(start_ms=item.start_ms, end_ms=item.end_ms, kind=EXCHANGE, name=name, details=details)


def work_name(kind: str, microbatch: int | None) -> str:
    """Name a piece of work for people."""
    return NAMES[kind] if microbatch is None else f"{NAMES[kind]} {microbatch}"


def unit_name(unit: int) -> str:
    """Name a unit for people."""
    return "the embedding" if unit < 0 else f"unit {unit}"


def shifted(rows: Sequence[Row], by_ms: float) -> tuple[Row, ...]:
    """Move rows in time."""
    return tuple(
        replace(
            row,
            spans=tuple(replace(s, start_ms=s.start_ms + by_ms, end_ms=s.end_ms + by_ms) for s in row.spans),
        )
        for row in rows
    )


def chrome_trace(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write rows in the Chrome trace format: one process a group, one thread a row. about: goes into otherData."""
    events: list[dict[str, Any]] = []
    threads: dict[str, int] = {}
    processes = {group: number for number, group in enumerate(dict.fromkeys(row.group for row in rows))}
    for group, process in processes.items():
        events.append(_named("process_name", process, 0, group))
    for row in rows:
        process, thread = processes[row.group], threads.get(row.group, 0)
        threads[row.group] = thread + 1
        events.append(_named("thread_name", process, thread, row.label))
        for span in row.spans:
            common: dict[str, Any] = {"name": span.name, "cat": row.label if row.overlaps else NAMES[span.kind]}
            common |= {"pid": process, "tid": thread, "args": dict(span.details)}
            events += _pair(common, span, len(events)) if row.overlaps else [_complete(common, span)]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(about)}


def timeline_trace(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """Write a timeline in the Chrome trace format."""
    left_out = len(plan.replicas) - shown_replicas(plan)
    about = {"model": plan.model, "emulated": plan.emulated, "replicas_left_out": left_out}
    return chrome_trace(timeline_rows(plan, timeline), about)


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(common: dict[str, Any], span: Span) -> dict[str, Any]:
    times = {"ts": span.start_ms * US_PER_MS, "dur": (span.end_ms - span.start_ms) * US_PER_MS}
    return {"ph": "X", **common, **times}


def _pair(common: dict[str, Any], span: Span, number: int) -> list[dict[str, Any]]:
    """Make the two events of a transfer; `number` joins them."""
    times_ms = (span.start_ms, span.end_ms)
    return [
        {"ph": phase, **common, "id": number, "ts": at_ms * US_PER_MS}
        for phase, at_ms in zip("be", times_ms, strict=True)
    ]
