"""A job's plans on the screen: what is asked, the options, the chosen one in words.

For `argosy plan` and `argosy train`. Lays out text that the room `plan` wrote; computes nothing.
"""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from argosy.cli.idling import idle_lines
from argosy.cli.inputs import Inputs
from argosy.cli.options_table import LONG_LINK, options_table
from argosy.cli.outlook import course_lines, power_lines
from argosy.cli.words import counted
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import option_rows, summary_lines


def print_plans(console: Console, inputs: Inputs, plans: Sequence[Plan]) -> None:
    """Print the options as a table, then the chosen one in words."""
    goal = inputs.job.objective.goal
    console.print(headline(inputs, plans) + "\n")
    table, left_out = options_table(plans, goal, console.width)
    console.print(table)
    console.print()
    lines = [*course_lines(inputs, plans), *summary_lines(plans, goal, console.width)]
    if LONG_LINK in left_out:
        lines.append(f"over the long link: {option_rows(plans[:1], goal)[0].long_link}.")
    lines += power_lines(inputs, plans[0])
    for line in (*lines, *idle_lines(inputs, plans)):
        console.print(Text(line, overflow="fold"))


def headline(inputs: Inputs, plans: Sequence[Plan]) -> str:
    """Say what is asked, of which fleet, and by which program it is timed."""
    job, fleet, train = inputs.job, inputs.fleet, inputs.job.train
    mark = f"   timed for {plans[0].program}"
    mark += "   emulated: times marked ~" if any(plan.emulated for plan in plans) else ""
    return (
        f"{job.model}   {train.global_batch_size:,} x {train.sequence_length:,} tokens a step, {train.precision}   "
        f"fleet {fleet.name}, {counted(fleet.chips, 'chip')}{mark}"
    )
