"""`argosy plan --pareto`: a job's plans that no other beats, as a table, as JSON and as a picture.

Asks the room `plan` and lays out what it answers; computes nothing.
"""

from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, JustifyMethod
from rich.table import Table

from argosy.cli.files import write_text
from argosy.cli.inputs import Inputs
from argosy.cli.jobs import load_model
from argosy.cli.options import headline
from argosy.cli.planning import front_inputs
from argosy.cli.scatter import Point, scatter_chart, value_text
from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError
from argosy.plan.explain import chips_text, plan_chips, predicted
from argosy.plan.folding import fold
from argosy.plan.pareto import Figures, Front, best_at, figures_of, front_rows

COST = "$ per 1T tokens"
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
PICTURES = (".svg", ".html")


def show_front(console: Console, inputs: Inputs, *, as_json: bool, plot: Path | None) -> None:
    """Find a job's front and show it in the ways that were asked for."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise BadInputError(f"--plot {plot}: write a name that ends in {' or '.join(PICTURES)}")
    front = front_inputs(inputs, load_model(inputs.job, inputs.job_source)[0])
    if plot is not None:
        write_front(plot, front, inputs)
    if as_json:
        typer.echo(encode(front_json(front)).decode())
        return
    console.print(headline(inputs.job, inputs.fleet, emulated=any(plan.emulated for plan in front.plans)) + "\n")
    print_front(console, front, inputs)


def print_front(console: Console, front: Front, inputs: Inputs) -> None:
    """Print a front as a table; columns of which nothing is known are left out."""
    rows = [asdict(row) for row in front_rows(front, inputs.job)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    fields = [(title, field) for title, field in TITLES.items() if any(row[field] not in ("", "-") for row in rows)]
    for title, field in fields:
        side: JustifyMethod = "left" if field in ("chips", "best") else "right"
        table.add_column(title, justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(row[field] for _, field in fields))
    console.print(table)
    more = len(front.plans) - len(rows)
    shown = f", {len(rows)} of them shown; --json lists all" if more else ""
    console.print(
        f"\n{len(front.plans)} plans that none of the {len(front.beaten)} others beats{shown}.", soft_wrap=True
    )


def front_json(front: Front) -> dict[str, Any]:
    """Give a front as JSON: figures, prediction and plan of each, like replicas once; and the figures of the beaten."""
    bests = best_at(front.plans)
    rows = [
        {
            **asdict(figures_of(plan)),
            "best": bests.get(index, ""),
            "chips_by_class": plan_chips(plan),
            "prediction": predicted(plan),
            "folded": fold(plan),
        }
        for index, plan in enumerate(front.plans)
    ]
    return {"front": rows, "beaten": front.beaten}


def write_front(path: Path, front: Front, inputs: Inputs) -> None:
    """Draw a front into a file: an SVG, or a page that holds it."""
    picture = front_svg(front, inputs)
    if path.suffix.lower() == ".html":
        title = escape(f"{inputs.job.model} on {inputs.fleet.name}")
        head = f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        picture = f'{head}<body style="margin:0">{picture}</body></html>'
    write_text(path, picture + "\n")


def front_svg(front: Front, inputs: Inputs) -> str:
    """Draw throughput over price, or over power or chips where no price is known."""
    figures = [figures_of(plan) for plan in front.plans]
    everything = [*figures, *front.beaten]
    label, name = "chips", "chips"
    for field, text in (("power_kw", "rated power of the chips in use, kW"), ("cost_per_trillion_tokens", COST)):
        if all(getattr(each, field) for each in everything):
            name, label = field, text
    emulated = any(plan.emulated for plan in front.plans)
    mark = "~" if emulated else ""

    def point(each: Figures, text: str = "") -> Point:
        told = f"{mark}{value_text(each.tokens_per_second)} tokens/s at {value_text(getattr(each, name))}"
        more = f"{text or f'{each.chips:,} chips'}: {told} ({label})"
        return Point(x=float(getattr(each, name)), y=each.tokens_per_second, label=text, more=more)

    train = inputs.job.train
    asked = f"{train.global_batch_size:,} x {train.sequence_length:,} tokens a step"
    return scatter_chart(
        [point(each, chips_text(plan)) for each, plan in zip(figures, front.plans, strict=True)],
        [point(each) for each in front.beaten],
        title=f"{inputs.job.model} on {inputs.fleet.name}: {asked}{' (emulated)' if emulated else ''}",
        note="filled: plans that no other beats in speed, price, power and chips together; "
        "line: in the two shown here; hollow: the others tried",
        x_label=label,
        y_label=f"tokens/s{' (emulated)' if emulated else ''}",
    )
