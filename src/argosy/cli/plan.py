"""`argosy plan`: how a job would split over a fleet, how fast, and why; nothing is started.

It reads the files, asks the room `plan`, and prints; it computes nothing itself.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from argosy.cli.inputs import read_inputs
from argosy.cli.jobs import load_model
from argosy.cli.options import course_of
from argosy.cli.options import print_plans as print_plans
from argosy.cli.plan_files import write_step
from argosy.cli.planning import plan_inputs
from argosy.contracts.codec import encode

WIDTH = 110


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
    inputs = read_inputs(job, settings or (), fleet, catalogue)
    plans = plan_inputs(inputs, load_model(inputs.job, inputs.job_source)[0])
    write_step(plans[0], trace, timeline)
    if as_json:
        typer.echo(encode({"plans": plans, "course": course_of(inputs.job, plans[0])}).decode())
        return
    print_plans(Console(width=WIDTH, highlight=False), inputs.job, inputs.fleet, plans)
