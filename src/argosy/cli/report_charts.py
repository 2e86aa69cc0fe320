"""The pictures of a report: loss, time of a step, one step as it was measured and as it was predicted.

Chooses what is drawn; `cli.charts` draws it.
"""

from argosy.cli import report_page as page
from argosy.cli.charts import Series, line_chart, row_chart
from argosy.cli.ended import Ended
from argosy.cli.tracefile import middle_step, read_traces, step_rows
from argosy.contracts.rank_trace import HOST
from argosy.plan.telling.explain import time_text
from argosy.plan.timing.timeline import simulate
from argosy.plan.timing.trace import shown_replicas, timeline_rows

HOST_NOTE = (
    "Measured on the host's clock: on an accelerator it tells when work was launched, not when the device did it."
)


def loss_chart(ended: Ended) -> str:
    """Draw the loss of every step."""
    points = tuple((float(step.step), step.loss) for step in ended.outcome.steps)
    return line_chart([Series(name="loss", points=points)], "step", "nats a token")


def time_chart(ended: Ended) -> str:
    """Draw the wall's time of each step, the emulated clock's, and what was predicted."""
    steps = ended.outcome.steps
    scale, unit = (1e3, "ms") if max((step.wall_s for step in steps), default=0) < 1 else (1.0, "s")
    series = [Series(name="wall clock", points=tuple((float(s.step), s.wall_s * scale) for s in steps), style="s1")]
    virtual = tuple((float(s.step), s.virtual_s * scale) for s in steps if s.virtual_s is not None)
    if virtual:
        series.append(Series(name="emulated clock", points=virtual))
    told = ended.choice.plan.prediction
    if told and steps:
        ends = (float(steps[0].step), float(steps[-1].step))
        points = tuple((x, told.step_ms / 1e3 * scale) for x in ends)
        series.append(Series(name="predicted", points=points, style="s2", dashed=True))
    return line_chart(series, "step", unit, from_zero=True)


def timelines(ended: Ended) -> list[str]:
    """Draw one step as it was measured, where ranks traced it, and as it was predicted."""
    plan = ended.choice.plan
    mark = "~" if plan.emulated else ""
    timeline = simulate(plan, listed=shown_replicas(plan))
    predicted = row_chart(timeline_rows(plan, timeline), timeline.step_ms)
    panels = [page.panel(predicted, f"predicted: {mark}{time_text(timeline.step_ms)}")]
    traces = read_traces(ended.directory / "trace") if ended.traced else []
    step = middle_step(traces)
    if step is not None:
        rows, length_ms = step_rows(plan, traces, step)
        # Ranks count from 1 in every attempt, the curve goes on.
        number = step + ended.outcome.steps[-1].step - ended.outcome.new_steps
        note = page.paragraph(HOST_NOTE, "soft") if traces[0].clock == HOST else ""
        chart = row_chart(rows, length_ms) + note
        panels.insert(0, page.panel(chart, f"measured, step {number}: {mark}{time_text(length_ms)}"))
    return [page.heading("One step, from barrier to barrier"), *panels]
