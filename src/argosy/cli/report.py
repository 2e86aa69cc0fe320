"""The report of a run: one HTML file with what was predicted beside what was measured, curves, timelines and traffic.

Puts sections together. Every figure of an emulated chip is marked.
"""

from html import escape
from pathlib import Path

from argosy import __version__
from argosy.cli import report_page as page
from argosy.cli.ended import Ended
from argosy.cli.files import write_text
from argosy.cli.report_charts import loss_chart, time_chart, timelines
from argosy.cli.report_tables import headline_figures, plan_lines, stages, traffic
from argosy.cli.words import counted

EMULATED_NOTE = (
    "Chips and links are emulated: the arithmetic is real and runs on this machine's CPU, paced by a virtual clock to "
    "the modelled times of the chips and links. Figures marked ~ are on that clock. The wall's clock is the check: it "
    "agrees while the machine keeps up, and falls behind on a busy one."
)


def write_report(path: Path, ended: Ended) -> None:
    """Write the report; whole or not at all."""
    write_text(path, report_html(ended))


def report_html(ended: Ended) -> str:
    """Build the page."""
    plan = ended.choice.plan
    job = ended.inputs.job
    body = [
        _head(ended),
        page.paragraph(str(ended.error), "bad") if ended.error else "",
        page.cards(headline_figures(ended)),
        page.paragraph(EMULATED_NOTE, "soft") if plan.emulated else "",
        page.paragraph(ended.warning, "bad"),
        page.heading("Predicted and measured"),
        page.panel(
            page.table(
                ("", ended.told_by, "measured", "difference"),
                [(line.what, line.predicted, line.measured, line.difference) for line in ended.lines],
            )
        ),
        page.heading("Over the steps"),
        page.side_by_side([page.panel(loss_chart(ended), "loss"), page.panel(time_chart(ended), "time of a step")]),
        *timelines(ended),
        page.heading("Traffic of a step"),
        page.panel(traffic(ended) or "one chip a replica, one replica: nothing travels"),
        page.heading("The plan"),
        page.panel(page.preformatted(plan_lines(ended))),
        page.panel(stages(ended)),
        page.paragraph(f"Argosy {__version__}. Data: {', '.join(job.data.files)}; {job.data.tokenizer}.", "soft"),
    ]
    return page.page(f"{job.name}: {plan.model} on {plan.fleet}", body)


def _head(ended: Ended) -> str:
    plan, job = ended.choice.plan, ended.inputs.job
    tag = '<span class="tag">emulated</span>' if plan.emulated else ""
    nodes = len({place.node for place in plan.placement})
    chips = f"{counted(plan.world_size, 'rank')} on {counted(nodes, 'node')}"
    about = (
        f"{plan.model}, {plan.global_batch_size:,} x {plan.sequence_length:,} tokens a step, {plan.precision}; fleet "
        f"{plan.fleet}: {chips}; {counted(job.train.steps, 'step')} asked, "
        f"{ended.outcome.steps[-1].step if ended.outcome.steps else 0:,} done"
    )
    return f"<h1>{escape(job.name)}{tag}</h1>{page.paragraph(about, 'soft')}"
