"""What `argosy plan` prints: the options, the chosen plan, and on demand why that and not another; or all as JSON.

Lays out what the room `plan` says; computes nothing.
"""

from collections.abc import Sequence

import typer

from argosy.cli.explaining import explained, print_explanation
from argosy.cli.inputs import Inputs
from argosy.cli.options import print_plans
from argosy.cli.plan_json import plans_json
from argosy.cli.words import console
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.forms import Form

WIDTH = 110


def show_plans(
    inputs: Inputs,
    shape: ModelShape,
    plans: Sequence[Plan],
    terms: str,
    *,
    explain: bool,
    runnable: bool,
    form: Form | None,
    as_json: bool,
) -> None:
    """Print plans, the chosen one first, and on demand why that and not another, or write all as JSON.

    runnable, form: what alone was asked for; terms: the same in words.
    """
    told = explained(inputs, shape, plans, runnable=runnable, form=form) if explain else None
    if as_json:
        typer.echo(plans_json(inputs, plans, told))
        return
    screen = console(WIDTH)
    if terms:
        screen.print(f"{terms}; the reference, efficiency and the bound are of such plans alone:\n")
    print_plans(screen, inputs, plans)
    if told is not None:
        print_explanation(screen, told, plans[0])
