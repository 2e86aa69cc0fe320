"""`argosy plan`: how a job would split over a fleet, how fast, and why; nothing is started.

It reads the files, asks the room `plan`, and prints; it computes nothing itself.
"""

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Fleet
from argosy.contracts.job import Job
from argosy.contracts.job_file import read_job
from argosy.contracts.plan import Plan
from argosy.fleet.catalogue import Catalogue, load_catalogue
from argosy.fleet.classes import chip_classes
from argosy.fleet.fleet_file import load_fleet
from argosy.model.config import read_config
from argosy.model.named import config_text
from argosy.plan.explain import option_rows, summary_lines
from argosy.plan.planner import plan_job
from argosy.plan.timeline import simulate
from argosy.plan.trace import chrome_trace, timeline_svg

WIDTH = 110
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


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job.yaml.")],
    fleet: Annotated[Path, typer.Option(help="A fleet.yaml.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job, e.g. train.steps=5."),
    ] = None,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write all plans as JSON, the chosen one first.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the chosen plan's step as a Perfetto trace.")] = None,
    timeline: Annotated[Path | None, typer.Option(help="Draw the chosen plan's step as an SVG.")] = None,
) -> None:
    """Say how a job would split over a fleet, how fast, at what cost, and what holds it back."""
    asked = read_job_file(job, settings or ())
    known = load_catalogue(catalogue)
    owned = load_fleet(fleet, known)
    plans = plan_for(asked, owned, known)
    drawn = simulate(plans[0]) if trace or timeline else None
    if trace and drawn:
        write(trace, json.dumps(chrome_trace(plans[0], drawn)))
    if timeline and drawn:
        write(timeline, timeline_svg(plans[0], drawn))
    if as_json:
        typer.echo(encode({"plans": plans}).decode())
        return
    print_plans(Console(width=WIDTH, highlight=False), asked, owned, plans)


def read_job_file(path: Path, settings: Sequence[str]) -> Job:
    """Read a job file with what `--set` replaces."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: can't be read as UTF-8 text: {error}; give the path of a job.yaml") from error
    return read_job(text, str(path), settings)


def plan_for(job: Job, fleet: Fleet, catalogue: Catalogue) -> tuple[Plan, ...]:
    """Plan a job on all of a fleet, best plan first."""
    shape = read_config(*config_text(job.model))
    return plan_job(
        job,
        shape,
        chip_classes(fleet, catalogue),
        fleet.long_links,
        fleet=fleet.name,
        seconds_left=seconds_left(job),
    )


def seconds_left(job: Job) -> float | None:
    """Give the time until a job's deadline, midnight local time for a bare date; None without one."""
    if job.objective.deadline is None:
        return None
    deadline = datetime.datetime.fromisoformat(job.objective.deadline).astimezone()
    return (deadline - datetime.datetime.now().astimezone()).total_seconds()


def write(path: Path, text: str) -> None:
    """Write a file that was asked for."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: can't be written: {error.strerror or error}; give another path") from error


def print_plans(console: Console, job: Job, fleet: Fleet, plans: Sequence[Plan]) -> None:
    """Print the options as a table, then the chosen one in words."""
    train = job.train
    emulated = "   emulated: times marked ~" if plans[0].emulated else ""
    console.print(
        f"{job.model}   {train.global_batch_size:,} x {train.sequence_length:,} tokens a step, {train.precision}   "
        f"fleet {fleet.name}, {fleet.chips:,} chips{emulated}\n"
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
