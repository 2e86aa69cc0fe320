"""One step of a plan as files: a Perfetto trace and an SVG.

Lays out what the rooms `plan` and `cli.charts` make; it must not plan.
"""

import json
from pathlib import Path

from argosy.cli.charts import row_chart
from argosy.cli.files import write_text
from argosy.contracts.plan import Plan
from argosy.plan.timeline import Timeline, simulate
from argosy.plan.trace import shown_replicas, timeline_rows, timeline_trace


def write_step(plan: Plan, trace: Path | None, picture: Path | None) -> None:
    """Write the files that were asked for."""
    if trace is None and picture is None:
        return
    timeline = simulate(plan)
    if trace is not None:
        write_text(trace, json.dumps(timeline_trace(plan, timeline)))
    if picture is not None:
        write_text(picture, timeline_svg(plan, timeline))


def timeline_svg(plan: Plan, timeline: Timeline) -> str:
    """Draw a timeline as a picture that stands alone; its title says what is emulated and what is left out."""
    mark, emulated = ("~", " (emulated)") if plan.emulated else ("", "")
    left_out = len(plan.replicas) - shown_replicas(plan)
    more = f", {left_out} like replicas not shown" if left_out else ""
    title = f"{plan.model}: one step, {mark}{timeline.step_ms:,.1f} ms{emulated}{more}"
    return row_chart(timeline_rows(plan, timeline), timeline.step_ms, title=title) + "\n"
