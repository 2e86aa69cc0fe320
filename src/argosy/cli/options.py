"""The options of a job as a table, and the chosen one in words, for `argosy plan` and `argosy train`.

Lays out text that the room `plan` wrote; computes nothing.
"""

import datetime
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from textwrap import fill

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from argosy.cli.jobs import seconds_left
from argosy.cli.words import counted
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Fleet
from argosy.contracts.job import Job
from argosy.contracts.plan import TRAINER_PROGRAM, Plan
from argosy.plan.course import Course, course, course_line
from argosy.plan.explain import option_rows, plan_chips, summary_lines

OPTION_WIDTH, NARROW_OPTION_WIDTH = 24, 13
# The longest names of chips are not cut.
CHIPS_WIDTH_MIN = 13
# Fewer columns than these don't hold the whole table.
WIDE = 100

TITLES = {
    "#": "",
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
    console.print(headline(job, fleet, plans) + "\n")
    console.print(options_table(job, plans, console.width))
    console.print()
    lines = [course_line(course_of(job, plans[0])), *summary_lines(plans, job.objective.goal, console.width)]
    if console.width < WIDE:
        lines.append(f"over the long link: {option_rows(plans[:1], job.objective.goal)[0].long_link}.")
    lines += power_lines(job, plans[0])
    for line in (*lines, *idle_lines(fleet, plans[0])):
        console.print(Text(line, overflow="fold"))


def headline(job: Job, fleet: Fleet, plans: Sequence[Plan]) -> str:
    """Say what is asked, of which fleet, and for which program where it is not the own trainer."""
    train = job.train
    program = plans[0].program
    mark = f"   as {program} trains" if program != TRAINER_PROGRAM else ""
    mark += "   emulated: times marked ~" if any(plan.emulated for plan in plans) else ""
    return (
        f"{job.model}   {train.global_batch_size:,} x {train.sequence_length:,} tokens a step, {train.precision}   "
        f"fleet {fleet.name}, {counted(fleet.chips, 'chip')}{mark}"
    )


def course_of(job: Job, plan: Plan) -> Course:
    """Work out what a job takes by a plan, from now on."""
    now = datetime.datetime.now().astimezone()
    left = None
    # A deadline that has passed is refused where a job is planned, not where a plan is shown.
    with suppress(BadInputError):
        left = seconds_left(job, now)
    return course(plan, job, now, left)


def power_lines(job: Job, plan: Plan) -> list[str]:
    """Say how much of the power cap a plan takes; nothing where there is no cap."""
    cap_kw, told = job.objective.power_kw, plan.prediction
    if cap_kw is None or told is None or told.power_kw is None:
        return []
    return [f"power: the chips in use draw {told.power_kw:,.4g} of {cap_kw:,.4g} kW at their rated power."]


def idle_lines(fleet: Fleet, plan: Plan) -> list[str]:
    """Say which chips of a fleet a plan leaves idle; nothing if none."""
    idle: Counter[tuple[str, str]] = Counter()
    for group in fleet.nodes:
        idle[group.site, group.chip] += group.chips_per_node * group.count
    for name, chips in plan_chips(plan).items():
        site, chip = (*name.split("/"), "")[:2]
        idle[site, chip] -= chips
    left = {place: chips for place, chips in idle.items() if chips > 0}
    kinds = Counter(chip for _, chip in left)
    texts = [
        f"{chips:,} {chip if kinds[chip] == 1 else f'{site}/{chip}'}" for (site, chip), chips in sorted(left.items())
    ]
    return [f"idle: {', '.join(texts)}"] if texts else []


def options_table(job: Job, plans: Sequence[Plan], width: int) -> Table:
    """Make the table of options; on a narrow screen what crosses the long link is told below it instead."""
    rows = option_rows(plans, job.objective.goal)
    priced = any(row.cost != "-" for row in rows)
    narrow = width < WIDE
    left_out = {*(() if priced else ("cost",)), *(("long_link",) if narrow else ())}
    columns = {title: field for title, field in TITLES.items() if field not in left_out}
    table = Table(box=None, padding=(0, 1 if narrow else 2, 0, 0), pad_edge=False, header_style="bold")
    for title, field in columns.items():
        side: JustifyMethod = "left" if field in ("option", "chips", "long_link") else "right"
        whole = field not in ("chips", "cost", "long_link")
        least = CHIPS_WIDTH_MIN if field == "chips" else None
        table.add_column(title, justify=side, overflow="fold", no_wrap=whole, min_width=least)
    for number, row in enumerate(rows, 1):
        option = fill(row.option, NARROW_OPTION_WIDTH if narrow else OPTION_WIDTH)
        texts = {**asdict(row), "": str(number), "option": option}
        table.add_row(*(texts[field] for field in columns.values()))
    return table
