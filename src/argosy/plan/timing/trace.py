"""Work over time as rows of spans, and rows as a trace in the Chrome trace format, which ui.perfetto.dev opens.

One form for a timeline that was predicted and one that was measured. The format: "Trace Event Format" of the Chromium
project; complete events (ph X) for work, asynchronous ones (ph b, e) for wires, where transfers overlap, in
microseconds. Must not time anything, nor draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argosy.contracts.plan import Plan, Replica, Stage
from argosy.plan.timing.timeline import Moved, Op, Timeline

US_PER_MS = 1000.0
EXCHANGE = "X"
NAMES = {"F": "forward", "B": "backward", "W": "weights", "U": "update", EXCHANGE: "exchange"}
WIRES = "wires"
# More rows than these are not read; like replicas look alike anyway.
ROWS_MAX = 64
# More spans than these a browser hardly opens.
SPANS_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One piece of work or one transfer.

    kind: of NAMES. chunk: which of a place's virtual stages worked, from 0. details: what a trace tells of it besides.
    """

    start_ms: float
    end_ms: float
    kind: str
    name: str
    chunk: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one worker did. group: rows that belong together. overlaps: its spans may lie over one another."""

    group: str
    label: str
    spans: tuple[Span, ...]
    overlaps: bool = False


def timeline_rows(plan: Plan, timeline: Timeline) -> tuple[Row, ...]:
    """Lay out a timeline: a row a place, grouped by replica, and a row a wire that carries exchanges.

    Where all would be more than ROWS_MAX rows, one replica of each kind stands for the others (`shown_replicas`).
    """
    spans: dict[tuple[int, int], list[Span]] = {}
    for op in timeline.ops:
        places = len(plan.places(plan.replicas[op.replica]))
        spans.setdefault((op.replica, op.stage % places), []).append(op_span(plan, op, places))
    rows = [
        Row(group=f"replica {r}", label=place_label(plan, r, place), spans=tuple(spans.get((r, place), ())))
        for r in shown_replicas(plan)
        for place in range(len(plan.places(plan.replicas[r])))
    ]
    for wire in dict.fromkeys(item.wire for item in timeline.moved):
        moved = tuple(moved_span(item) for item in timeline.moved if item.wire == wire)
        rows.append(Row(group=WIRES, label=wire, spans=moved, overlaps=True))
    return tuple(rows)


def shown_replicas(plan: Plan) -> tuple[int, ...]:
    """Choose the replicas to lay out: all if they fit into ROWS_MAX rows, else one of each kind while they fit."""
    rows = [len(plan.places(replica)) for replica in plan.replicas]
    if sum(rows) <= ROWS_MAX:
        return tuple(range(len(rows)))
    firsts = {kind_of(replica): index for index, replica in reversed(list(enumerate(plan.replicas)))}
    shown: list[int] = []
    left = ROWS_MAX
    for index in sorted(firsts.values()):
        if rows[index] <= left or not shown:
            shown.append(index)
            left -= rows[index]
    return tuple(shown)


def kind_of(replica: Replica) -> object:
    """Give what two replicas must share to look alike."""
    return replica.microbatches, replica.sends, tuple(replace(stage, ranks=()) for stage in replica.stages)


def left_out_text(plan: Plan) -> str:
    """Say which replicas are not laid out; empty when all are."""
    shown = shown_replicas(plan)
    count = len(plan.replicas) - len(shown)
    if not count:
        return ""
    kinds = len({kind_of(replica) for replica in plan.replicas})
    return f"{count:,} {'like ' if kinds == len(shown) else ''}replicas not shown"


def excerpt(rows: Sequence[Row], spans_max: int) -> tuple[tuple[Row, ...], float | None]:
    """Keep the beginning of rows that have too many spans, and say until when; None when all are kept."""
    starts = sorted(span.start_ms for row in rows for span in row.spans)
    if len(starts) <= spans_max:
        return tuple(rows), None
    end_ms = starts[spans_max]
    return tuple(replace(row, spans=tuple(s for s in row.spans if s.start_ms < end_ms)) for row in rows), end_ms


def place_label(plan: Plan, replica: int, place: int) -> str:
    """Name a place: replica, place, chips, and the layers of all its stages."""
    return label(replica, place, plan.stages_at(plan.replicas[replica], place))


def stage_label(plan: Plan, replica: int, stage: int) -> str:
    """Name a stage: replica, stage, chips and layers."""
    return label(replica, stage, plan.replicas[replica].stages[stage : stage + 1])


def label(replica: int, index: int, stages: Sequence[Stage]) -> str:
    """Name what some stages of one place are on and hold."""
    chips = f" x{stages[0].width}" if stages[0].width > 1 else ""
    return f"{replica}.{index} {stages[0].chip_class}{chips}, layers {', '.join(map(layers_text, stages))}"


def layers_text(stage: Stage) -> str:
    """Name a stage's layers."""
    last = stage.end_layer - 1
    return f"{stage.first_layer}-{last}" if last > stage.first_layer else f"{last}"


def op_span(plan: Plan, op: Op, places: int) -> Span:
    """Describe a piece of work."""
    stage = op.stage if plan.virtual_stages > 1 and op.microbatch >= 0 else None
    name = work_name(op.kind, op.microbatch if op.microbatch >= 0 else None, stage)
    return Span(start_ms=op.start_ms, end_ms=op.end_ms, kind=op.kind, name=name, chunk=op.stage // places)


def moved_span(item: Moved) -> Span:
    """Describe an exchange or gather."""
    details = {"wire": item.wire, "waited_ms": item.start_ms - item.ready_ms, "members": len(item.members)}
    name = f"{item.kind} of {unit_name(item.unit)}"
    return Span(start_ms=item.start_ms, end_ms=item.end_ms, kind=EXCHANGE, name=name, details=details)


def work_name(kind: str, microbatch: int | None, stage: int | None = None) -> str:
    """Name a piece of work for people; stage: where a place has several."""
    name = NAMES[kind] if microbatch is None else f"{NAMES[kind]} {microbatch}"
    return name if stage is None else f"{name} of stage {stage}"


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
    """Write a timeline in the Chrome trace format; otherData says what of it was left out."""
    rows, until_ms = excerpt(timeline_rows(plan, timeline), SPANS_MAX)
    left_out = len(plan.replicas) - len(shown_replicas(plan))
    about = {"model": plan.model, "emulated": plan.emulated, "replicas_left_out": left_out, "shown_until_ms": until_ms}
    return chrome_trace(rows, about)


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
