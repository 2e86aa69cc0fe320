"""One step of a plan as files: a Perfetto trace and an SVG.

Lays out what the rooms `plan` and `cli.charts` make; it must not plan.
"""

import json
from pathlib import Path

from argosy.cli.charts import row_chart
from argosy.cli.files import check_ending, check_file, write_text
from argosy.contracts.plan import Plan
from argosy.plan.timing.timeline import Timeline, simulate
from argosy.plan.timing.trace import excerpt, left_out_text, shown_replicas, timeline_rows, timeline_trace

# A picture of more boxes than these opens slowly, and none of them is wide enough to be seen.
SPANS_DRAWN_MAX = 20_000


def check_wanted(trace: Path | None, timeline: Path | None, plot: Path | None) -> None:
    """See that the files asked for could be written, before anything is planned. Raises BadInputError."""
    if trace is not None:
        check_file(trace, "--trace")
    for picture, option, endings in ((timeline, "--timeline", (".svg",)), (plot, "--plot", (".svg", ".html"))):
        if picture is not None:
            check_ending(picture, option, endings)
            check_file(picture, option)


def write_step(plan: Plan, trace: Path | None, picture: Path | None) -> None:
    """Write the files that were asked for."""
    if trace is None and picture is None:
        return
    timeline = simulate(plan, listed=shown_replicas(plan))
    if trace is not None:
        write_text(trace, json.dumps(timeline_trace(plan, timeline)))
    if picture is not None:
        write_text(picture, timeline_svg(plan, timeline))


def timeline_svg(plan: Plan, timeline: Timeline) -> str:
    """Draw a timeline as a picture that stands alone; its title says what is emulated and what is left out."""
    mark, emulated = ("~", " (emulated)") if plan.emulated else ("", "")
    rows, until_ms = excerpt(timeline_rows(plan, timeline), SPANS_DRAWN_MAX)
    parts = [f"one step, {mark}{timeline.step_ms:,.1f} ms{emulated}", left_out_text(plan)]
    parts.append("" if until_ms is None else f"shown until {mark}{until_ms:,.1f} ms")
    title = f"{plan.model}: {', '.join(filter(None, parts))}"
    return row_chart(rows, timeline.step_ms if until_ms is None else until_ms, title=title) + "\n"
