"""`argosy plan`: how a job would split over a fleet, how fast, and why; nothing is started.

It reads the files, asks the room `plan`, and prints; it computes nothing itself.
"""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.exporting import export_plans, read_wishes
from argosy.cli.inputs import read_inputs
from argosy.cli.options import course_of
from argosy.cli.options import print_plans as print_plans
from argosy.cli.pareto import show_front
from argosy.cli.plan_files import write_step
from argosy.cli.planning import plan_model
from argosy.cli.words import console
from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError

WIDTH = 110


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job.yaml.")],
    fleet: Annotated[Path, typer.Option(help="A fleet.yaml.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job, e.g. train.steps=5."),
    ] = None,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    profile: Annotated[list[Path] | None, typer.Option(help="Measured times, from `argosy profile`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write all plans as JSON, the chosen one first.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the chosen plan's step as a Perfetto trace.")] = None,
    timeline: Annotated[Path | None, typer.Option(help="Draw the chosen plan's step as an SVG.")] = None,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="List the plans that none beats in speed, price, power and chips together.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw those plans as a .svg or .html.")] = None,
    exports: Annotated[
        list[str] | None,
        typer.Option(
            "--export",
            metavar="FORMAT[=FILE]",
            help="Write a plan for another framework: megatron, torchtitan or flagscale.",
        ),
    ] = None,
    number: Annotated[int, typer.Option("--plan", metavar="N", help="Which plan of the list to export.")] = 1,
) -> None:
    """Say how a job would split over a fleet, how fast, at what cost, and what holds it back."""
    if (pareto or plot) and (trace or timeline or exports):
        raise BadInputError(
            "--pareto and --plot are about many plans, --trace, --timeline and --export about one; choose"
        )
    wishes = read_wishes(exports or (), alone=not as_json)
    inputs = read_inputs(job, settings or (), fleet, catalogue, profile or ())
    if pareto or plot:
        show_front(console(WIDTH), inputs, as_json=as_json, plot=plot)
        return
    shape, plans = plan_model(inputs)
    write_step(plans[0], trace, timeline)
    if exported := export_plans(wishes, plans, number, inputs, shape):
        typer.echo(exported, nl=False)
        return
    if as_json:
        typer.echo(encode({"plans": plans, "course": course_of(inputs.job, plans[0])}).decode())
        return
    print_plans(console(WIDTH), inputs.job, inputs.fleet, plans)
