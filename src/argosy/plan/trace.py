"""A timeline as pictures: a trace in the Chrome trace format, which ui.perfetto.dev opens, and an SVG.

The format: "Trace Event Format" of the Chromium project; complete events (ph X) for work, asynchronous ones (ph b, e)
for wires, in microseconds. Draws what it is given; must not time anything.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from argosy.contracts.plan import Plan
from argosy.plan.timeline import Moved, Op, Timeline

US_PER_MS = 1000.0
NAMES = {"F": "forward", "B": "backward", "U": "update"}
COLOURS = {"F": "#4c78a8", "B": "#e0853a", "U": "#7a9e5f", "exchange": "#8d6cab", "gather": "#b79ad0"}
# A picture of more rows than this is not read; alike replicas look alike anyway.
ROWS_MAX = 64
ROW_PX, LABEL_PX, WIDTH_PX, HEAD_PX = 18, 190, 1100, 26
SMALLEST_PX = 0.3


def chrome_trace(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """Write a timeline in the Chrome trace format: one process a replica, one thread a stage; wires are one process.

    Replicas beyond ROWS_MAX stages are left out and counted in otherData.
    """
    shown = shown_replicas(plan)
    wires = len(plan.replicas)
    events: list[dict[str, Any]] = []
    for r in range(shown):
        events.append(named("process_name", r, 0, f"replica {r}"))
        events += [
            named(
                "thread_name",
                r,
                s,
                f"stage {s}: layers {stage.first_layer}-{stage.end_layer - 1} on {stage.chip_class}",
            )
            for s, stage in enumerate(plan.replicas[r].stages)
        ]
    events += [op_event(op) for op in timeline.ops if op.replica < shown]
    if timeline.moved:
        events.append(named("process_name", wires, 0, "wires"))
    for number, item in enumerate(timeline.moved):
        events += moved_events(item, wires, number)
    left_out = len(plan.replicas) - shown
    other = {"model": plan.model, "emulated": plan.emulated, "replicas_left_out": left_out}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def shown_replicas(plan: Plan) -> int:
    """Count the replicas that fit into ROWS_MAX rows, at least one."""
    rows = 0
    for index, replica in enumerate(plan.replicas):
        rows += len(replica.stages)
        if rows > ROWS_MAX:
            return max(1, index)
    return len(plan.replicas)


def named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """Make the event that names a process or thread."""
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def op_event(op: Op) -> dict[str, Any]:
    """Make the complete event of one piece of work."""
    return {
        "ph": "X",
        "name": op_name(op),
        "pid": op.replica,
        "tid": op.stage,
        "ts": op.start_ms * US_PER_MS,
        "dur": (op.end_ms - op.start_ms) * US_PER_MS,
    }


def op_name(op: Op) -> str:
    """Name a piece of work for people."""
    return NAMES[op.kind] if op.microbatch < 0 else f"{NAMES[op.kind]} {op.microbatch}"


def moved_events(item: Moved, process: int, number: int) -> list[dict[str, Any]]:
    """Make the two events of one exchange, asynchronous because exchanges overlap on a wire; its wait is in args."""
    shared = {
        "cat": item.wire,
        "name": f"{item.kind} of {unit_name(item.unit)}",
        "pid": process,
        "tid": 0,
        "id": number,
    }
    args = {"wire": item.wire, "waited_ms": item.start_ms - item.ready_ms, "members": len(item.members)}
    return [
        shared | {"ph": "b", "ts": item.start_ms * US_PER_MS, "args": args},
        shared | {"ph": "e", "ts": item.end_ms * US_PER_MS},
    ]


def unit_name(unit: int) -> str:
    """Name a unit for people."""
    return "the embedding" if unit < 0 else f"unit {unit}"


def timeline_svg(plan: Plan, timeline: Timeline) -> str:
    """Draw a timeline as an SVG: one row a stage, one a wire that carries exchanges."""
    shown = shown_replicas(plan)
    rows: list[tuple[str, list[tuple[float, float, str, str]]]] = []
    for r in range(shown):
        for s, stage in enumerate(plan.replicas[r].stages):
            spans = [span(op) for op in timeline.ops if (op.replica, op.stage) == (r, s)]
            rows.append((f"{r}.{s} {stage.chip_class} x{stage.tp}", spans))
    for wire in dict.fromkeys(item.wire for item in timeline.moved):
        rows.append((wire, [moved_span(item) for item in timeline.moved if item.wire == wire]))
    scale = (WIDTH_PX - LABEL_PX) / timeline.step_ms if timeline.step_ms > 0 else 0.0
    height = HEAD_PX + ROW_PX * len(rows) + 4
    body = [row for index, (label, spans) in enumerate(rows) for row in drawn_row(label, spans, index, scale)]
    return "\n".join([*head_lines(plan, timeline, height, len(plan.replicas) - shown), *body, "</svg>", ""])


def span(op: Op) -> tuple[float, float, str, str]:
    """Describe a piece of work as (start, end, kind, what it is)."""
    return op.start_ms, op.end_ms, op.kind, op_name(op)


def moved_span(item: Moved) -> tuple[float, float, str, str]:
    """Describe an exchange as (start, end, kind, what it is)."""
    return item.start_ms, item.end_ms, item.kind, f"{item.kind} of {unit_name(item.unit)}"


def head_lines(plan: Plan, timeline: Timeline, height: int, left_out: int) -> list[str]:
    """Open the picture and say what it shows."""
    mark = "~" if plan.emulated else ""
    more = f", {left_out} like replicas not shown" if left_out else ""
    text = f"{plan.model}: one step, {mark}{timeline.step_ms:,.1f} ms{' (emulated)' if plan.emulated else ''}{more}"
    font = 'font-family="sans-serif" font-size="11"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height}" {font}>',
        f'<rect width="{WIDTH_PX}" height="{height}" fill="white"/>',
        f'<text x="4" y="16" font-weight="bold">{escape(text)}</text>',
        *legend(),
    ]


def legend() -> list[str]:
    """Say what the colours mean."""
    lines = []
    for index, (kind, colour) in enumerate(COLOURS.items()):
        x = WIDTH_PX - 85 * (len(COLOURS) - index)
        lines.append(f'<rect x="{x}" y="8" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 14}" y="17">{NAMES.get(kind, kind)}</text>')
    return lines


def drawn_row(label: str, spans: Sequence[tuple[float, float, str, str]], index: int, scale: float) -> Iterable[str]:
    """Draw one row with its label."""
    y = HEAD_PX + ROW_PX * index
    yield f'<text x="4" y="{y + 13}">{escape(label)}</text>'
    for start_ms, end_ms, kind, what in spans:
        width = max(SMALLEST_PX, (end_ms - start_ms) * scale - 0.4)
        title = escape(f"{what}: {start_ms:.2f} to {end_ms:.2f} ms")
        yield (
            f'<rect x="{LABEL_PX + start_ms * scale:.2f}" y="{y + 1}" width="{width:.2f}" height="{ROW_PX - 3}" '
            f'fill="{COLOURS[kind]}"><title>{title}</title></rect>'
        )
