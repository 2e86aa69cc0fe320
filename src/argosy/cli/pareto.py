"""`argosy plan --pareto`: a job's plans that no other beats, as a table and as JSON.

Asks the room `plan` and lays out what it answers; computes nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from argosy.cli.inputs import Inputs
from argosy.cli.options import headline
from argosy.cli.pareto_json import front_json
from argosy.cli.pareto_picture import COST, write_front
from argosy.cli.tables import fitting, made_table
from argosy.cli.words import console, counted
from argosy.contracts.plan import Plan
from argosy.plan.telling.pareto import Front, front_notes, front_rows, pareto_front

WIDTH = 110
TITLES = {
    "chips": "chips",
    "step": "step",
    "tokens/s": "tokens_per_second",
    COST: "cost",
    "power": "power",
    "all steps": "whole",
    "gap": "gap",
    "": "best",
}
FOLDED = ("chips", "all steps", "")
EXPENDABLE = ("gap", "power", COST, "")


def show_front(inputs: Inputs, plans: Sequence[Plan], terms: str, *, as_json: bool, plot: Path | None) -> None:
    """Show those of a job's plans that no other beats, in the ways that were asked for.

    terms: of which plans alone, in words; empty for all.
    """
    front = pareto_front(plans)
    if plot is not None:
        write_front(plot, front, inputs)
    if as_json:
        typer.echo(front_json(front))
        return
    screen = console(WIDTH)
    if terms:
        screen.print(f"{terms}; the gap is to the least of such plans:\n")
    screen.print(headline(inputs, front.plans) + "\n")
    print_front(screen, front, inputs)


def print_front(screen: Console, front: Front, inputs: Inputs) -> None:
    """Print a front as a table; columns of which nothing is known are left out."""
    rows = [asdict(row) for row in front_rows(front, inputs.job, inputs.classes)]
    columns = {title: [row[field] for row in rows] for title, field in TITLES.items()}
    columns = {title: texts for title, texts in columns.items() if any(text not in ("", "-") for text in texts)}
    whole = [title for title in columns if title not in FOLDED]
    kept = fitting(columns, screen.width, EXPENDABLE, whole)
    screen.print(made_table({title: columns[title] for title in kept}, screen.width, ("chips", ""), whole))
    shown = f"; {len(rows)} of them shown, --json lists all" if len(rows) < len(front.plans) else ""
    unbeaten, beaten = counted(len(front.plans), "plan"), counted(len(front.beaten), "other")
    screen.print(f"\n{unbeaten} that none beats, {beaten} that they beat{shown}.", soft_wrap=True)
    for line in front_notes(front, inputs.classes):
        screen.print(Text(line, overflow="fold"))
