"""The options of a job as a table, and the chosen one in words, for `argosy plan` and `argosy train`.

Lays out text that the room `plan` wrote; computes nothing.
"""

from collections.abc import Sequence

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from argosy.cli.words import counted
from argosy.contracts.fleet import Fleet
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.explain import option_rows, summary_lines

TITLES = {
    "option": "option",
    "chips": "chips",
    "step": "step",
    "tokens/s": "tokens_per_second",
    "MFU": "mfu",
    "$ per 1T tokens": "cost",
    "efficiency": "efficiency",
    "over the long link": "long_link",
}


def print_plans(console: Console, job: Job, fleet: Fleet, plans: Sequence[Plan]) -> None:
    """Print the options as a table, then the chosen one in words."""
    train = job.train
    emulated = "   emulated: times marked ~" if plans[0].emulated else ""
    console.print(
        f"{job.model}   {train.global_batch_size:,} x {train.sequence_length:,} tokens a step, {train.precision}   "
        f"fleet {fleet.name}, {counted(fleet.chips, 'chip')}{emulated}\n"
    )
    console.print(options_table(job, plans))
    console.print()
    for line in summary_lines(plans, job.objective.goal):
        console.print(Text(line, overflow="fold"))


def options_table(job: Job, plans: Sequence[Plan]) -> Table:
    """Make the table of options."""
    rows = option_rows(plans, job.objective.goal)
    priced = any(row.cost != "-" for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title, field in TITLES.items():
        if field != "cost" or priced:
            side: JustifyMethod = "left" if field in ("option", "chips", "long_link") else "right"
            table.add_column(title, justify=side, overflow="fold", no_wrap=field == "option")
    for row in rows:
        fields = [field for field in TITLES.values() if field != "cost" or priced]
        table.add_row(*(str(getattr(row, field)) for field in fields))
    return table
