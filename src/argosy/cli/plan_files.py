"""One step of a plan as files: a Perfetto trace and a picture.

Lays out what the rooms `plan` and `cli.charts` make; it must not plan.
"""

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

from argosy.cli.charts import row_chart
from argosy.cli.files import check_apart, check_ending, check_file, write_text
from argosy.contracts.plan import Plan
from argosy.plan.timing.timeline import Timeline, simulate
from argosy.plan.timing.trace import excerpt, left_out_text, shown_replicas, timeline_rows, timeline_trace

# A picture of more boxes than these opens slowly, and none of them is wide enough to be seen.
SPANS_DRAWN_MAX = 20_000
PICTURES = (".svg", ".html")


def check_wanted(
    read: Iterable[Path | None],
    trace: Path | None,
    timeline: Path | None,
    plot: Path | None,
    exports: Iterable[tuple[str, Path | None]],
) -> None:
    """See that the files asked for could be written, before anything is planned. Raises BadInputError.

    read: files that none may replace; exports: more files, each with the option that names it.
    """
    if trace is not None:
        check_file(trace, "--trace")
    for picture, option in ((timeline, "--timeline"), (plot, "--plot")):
        if picture is not None:
            check_ending(picture, option, PICTURES)
            check_file(picture, option)
    check_apart(read, [("--trace", trace), ("--timeline", timeline), ("--plot", plot), *exports])


def write_step(plan: Plan, trace: Path | None, picture: Path | None) -> None:
    """Write the files that were asked for."""
    if trace is None and picture is None:
        return
    timeline = simulate(plan, listed=shown_replicas(plan))
    if trace is not None:
        write_text(trace, json.dumps(timeline_trace(plan, timeline)))
    if picture is not None:
        write_picture(picture, timeline_svg(plan, timeline), f"{plan.model} on {plan.fleet}")


def write_picture(path: Path, svg: str, title: str) -> None:
    """Write an SVG as it is or, where the name ends in .html, as a page that holds it."""
    if path.suffix.lower() == ".html":
        head = f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        svg = f'{head}<body style="margin:0">{svg.rstrip()}</body></html>\n'
    write_text(path, svg)


def timeline_svg(plan: Plan, timeline: Timeline) -> str:
    """Draw a timeline as a picture that stands alone; its title says what is emulated and what is left out."""
    mark, emulated = ("~", " (emulated)") if plan.emulated else ("", "")
    rows, until_ms = excerpt(timeline_rows(plan, timeline), SPANS_DRAWN_MAX)
    parts = [f"one step, {mark}{timeline.step_ms:,.1f} ms{emulated}", left_out_text(plan)]
    parts.append("" if until_ms is None else f"shown until {mark}{until_ms:,.1f} ms")
    title = f"{plan.model}: {', '.join(filter(None, parts))}"
    return row_chart(rows, timeline.step_ms if until_ms is None else until_ms, title=title) + "\n"
