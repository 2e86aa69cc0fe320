"""`argosy plan`: how a job would split over a fleet, how fast, and why; nothing is started.

It reads the files, asks the room `plan`, and prints; it computes nothing itself.
"""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.asking import asked_plans, asked_sizes, terms_text
from argosy.cli.exporting import Chosen, read_wishes, write_plan
from argosy.cli.inputs import read_inputs
from argosy.cli.pareto import show_front
from argosy.cli.plan_files import check_wanted
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
    timeline: Annotated[Path | None, typer.Option(help="Draw the chosen plan's step as a .svg or .html.")] = None,
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

    Plans are of any form; in bf16 they are timed as Megatron Core trains, with --runnable, in fp32, and with --profile
    but no --for as Argosy's own trainer does.
    """
    if (pareto or plot) and (trace or timeline or exports or explain):
        raise BadInputError(
            "--pareto and --plot are about many plans, --explain, --trace, --timeline and --export about one; choose"
        )
    if framework is not None and runnable:
        raise BadInputError("--for plans for another framework, --runnable for Argosy's own trainer; give one of them")
    if number != 1 and not (trace or timeline or exports):
        raise BadInputError(f"--plan {number} is about files; name one by --trace, --timeline or --export")
    form = find_form(framework) if framework is not None else None
    wishes = read_wishes(exports or (), alone=not (as_json or explain))
    files = [(f"--export {wish.format}", wish.file) for wish in wishes]
    check_wanted((job, fleet, catalogue, *(profile or ())), trace, timeline, plot, files)
    inputs = read_inputs(job, settings or (), fleet, catalogue, profile or ())
    terms = terms_text(runnable=runnable, form=form)
    if pareto or plot:
        show_front(inputs, asked_sizes(inputs, runnable=runnable, form=form), terms, as_json=as_json, plot=plot)
        return
    shape, plans = asked_plans(inputs, runnable=runnable, form=form)
    chosen = Chosen(plans=plans, number=number, framework=framework)
    exported = write_plan(chosen, inputs=inputs, shape=shape, trace=trace, timeline=timeline, wishes=wishes)
    if exported is not None:
        typer.echo(exported, nl=False)
        return
    show_plans(inputs, shape, plans, terms, explain=explain, runnable=runnable, form=form, as_json=as_json)
