"""`argosy plan --pareto`: a job's plans that no other beats, as a table and as JSON.

Asks the room `plan` and lays out what it answers; computes nothing.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, JustifyMethod
from rich.table import Table

from argosy.cli.inputs import Inputs
from argosy.cli.options import CHIPS_WIDTH_MIN, WIDE, headline
from argosy.cli.pareto_picture import COST, check_picture, write_front
from argosy.cli.planning import front_inputs
from argosy.cli.words import console, counted
from argosy.contracts.codec import encode
from argosy.plan.folding import fold
from argosy.plan.pareto import Front, best_at, figures_of, front_rows

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


def show_front(inputs: Inputs, *, runnable: bool, as_json: bool, plot: Path | None) -> None:
    """Find a job's front and show it in the ways that were asked for."""
    if plot is not None:
        check_picture(plot)
    front = front_inputs(inputs, runnable=runnable)
    if plot is not None:
        write_front(plot, front, inputs)
    if as_json:
        typer.echo(encode(front_json(front)).decode())
        return
    screen = console(WIDTH)
    screen.print(headline(inputs.job, inputs.fleet, front.plans) + "\n")
    print_front(screen, front, inputs)


def print_front(screen: Console, front: Front, inputs: Inputs) -> None:
    """Print a front as a table; columns of which nothing is known are left out."""
    rows = [asdict(row) for row in front_rows(front, inputs.job)]
    table = Table(box=None, padding=(0, 1 if screen.width < WIDE else 2, 0, 0), pad_edge=False, header_style="bold")
    fields = [(title, field) for title, field in TITLES.items() if any(row[field] not in ("", "-") for row in rows)]
    for title, field in fields:
        side: JustifyMethod = "left" if field in ("chips", "best") else "right"
        least = CHIPS_WIDTH_MIN if field == "chips" else None
        table.add_column(title, justify=side, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(row[field] for _, field in fields))
    screen.print(table)
    shown = f"; {len(rows)} of them shown, --json lists all" if len(rows) < len(front.plans) else ""
    kept, beaten = counted(len(front.plans), "plan"), counted(len(front.beaten), "other")
    screen.print(f"\n{kept} that none beats, {beaten} that they beat{shown}.", soft_wrap=True)


def front_json(front: Front) -> dict[str, Any]:
    """Give a front as JSON: figures, prediction and plan of each, like replicas once; and the figures of the beaten."""
    bests = best_at(front.plans)
    rows = [
        {
            **asdict(figures_of(plan)),
            "best": bests.get(index, ""),
            "prediction": plan.prediction,
            "folded": fold(plan),
        }
        for index, plan in enumerate(front.plans)
    ]
    return {"front": rows, "beaten": front.beaten}
