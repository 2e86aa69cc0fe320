"""`argosy plan`: how a job would split over a fleet, how fast, and why; nothing is started.

It reads the files, asks the room `plan`, and prints; it computes nothing itself.
"""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.exporting import Chosen, read_wishes, write_plan
from argosy.cli.inputs import read_inputs
from argosy.cli.pareto import show_front
from argosy.cli.plan_files import check_wanted
from argosy.cli.planning import plan_model, sized_inputs
from argosy.cli.showing import show_plans
from argosy.contracts.errors import BadInputError
from argosy.plan.forms import find_form


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
    runnable: Annotated[
        bool,
        typer.Option(
            "--runnable", help="Only plans that Argosy's trainer runs, as `argosy train` times and numbers them."
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each choice is worth, and what holds the plan back.")
    ] = False,
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
    framework: Annotated[
        str | None,
        typer.Option("--for", metavar="FORMAT", help="Only plans that megatron, torchtitan or flagscale can run."),
    ] = None,
    number: Annotated[int, typer.Option("--plan", metavar="N", help="Which plan of the list is written to files.")] = 1,
) -> None:
    """Say how a job would split over a fleet, how fast, at what cost, and what holds it back.

    Plans in bf16 are timed as Megatron Core trains, with --runnable, --profile and in fp32 as Argosy's own trainer.
    """
    if (pareto or plot) and (trace or timeline or exports or explain):
        raise BadInputError(
            "--pareto and --plot are about many plans, --explain, --trace, --timeline and --export about one; choose"
        )
    if framework and runnable:
        raise BadInputError("--for plans for another framework, --runnable for Argosy's own trainer; give one of them")
    form = find_form(framework) if framework else None
    wishes = read_wishes(exports or (), alone=not as_json)
    check_wanted(trace, timeline, plot)
    inputs = read_inputs(job, settings or (), fleet, catalogue, profile or ())
    if pareto or plot:
        show_front(inputs, sized_inputs(inputs, runnable=runnable, form=form), as_json=as_json, plot=plot)
        return
    shape, plans = plan_model(inputs, runnable=runnable, form=form)
    chosen = Chosen(plans=plans, number=number, framework=framework)
    exported = write_plan(chosen, inputs=inputs, shape=shape, trace=trace, timeline=timeline, wishes=wishes)
    if exported is not None:
        typer.echo(exported, nl=False)
        return
    if form and not as_json:
        typer.echo(f"only plans that {form.name} runs:\n")
    show_plans(inputs, shape, plans, explain=explain, runnable=runnable, form=form, as_json=as_json)
