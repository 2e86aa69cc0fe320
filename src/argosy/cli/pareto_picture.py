"""The picture of a Pareto front: throughput over price, or over power or chips where no price is known.

Chooses what is drawn and how it is named; `cli.scatter` draws.
"""

from pathlib import Path

from argosy.cli.inputs import Inputs
from argosy.cli.plan_files import write_picture
from argosy.cli.scatter import Point, scatter_chart, value_text
from argosy.cli.words import counted
from argosy.plan.telling.explain import chips_text
from argosy.plan.telling.pareto import Figures, Front, figures_of

COST = "$ per 1T tokens"


def write_front(path: Path, front: Front, inputs: Inputs) -> None:
    """Draw a front into a file: an SVG, or a page that holds it."""
    write_picture(path, front_svg(front, inputs) + "\n", f"{inputs.job.model} on {inputs.fleet.name}")


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
        more = f"{text or counted(each.chips, 'chip')}: {told} ({label})"
        return Point(x=float(getattr(each, name)), y=each.tokens_per_second, label=text, more=more)

    train, names = inputs.job.train, [one.name for one in inputs.classes]
    asked = f"{train.global_batch_size:,} x {train.sequence_length:,} tokens a step"
    return scatter_chart(
        [point(each, chips_text(plan, names)) for each, plan in zip(figures, front.plans, strict=True)],
        [point(each) for each in front.beaten],
        title=f"{inputs.job.model} on {inputs.fleet.name}: {asked}{' (emulated)' if emulated else ''}",
        note="filled: plans that no other beats in speed, price, power and chips together; "
        "line: in the two shown here; hollow: the others tried",
        x_label=label,
        y_label=f"tokens/s{' (emulated)' if emulated else ''}",
    )
