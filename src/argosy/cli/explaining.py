"""What `argosy plan --explain` asks and prints: what each choice is worth, what binds, what would help.

Lays out what the room `plan` says; computes nothing.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from argosy.cli.inputs import Inputs
from argosy.cli.waiting import Waiting
from argosy.cli.words import counted
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.forms import Form
from argosy.plan.telling.explain import marked, share_text, size_text
from argosy.plan.telling.explanation import Explanation, explanation

EASED_SHARE_MIN, BINDING_MAX, LEFT_OUT_MAX, CHOICES_MAX = 0.0005, 4, 5, 14


def explained(
    inputs: Inputs, shape: ModelShape, plans: Sequence[Plan], *, runnable: bool, form: Form | None
) -> Explanation:
    """Ask why the first plan and not another. runnable, form: what alone was asked for."""
    with Waiting("explaining"):
        return explanation(
            inputs.job,
            shape,
            inputs.classes,
            inputs.fleet.long_links,
            plans,
            measured=inputs.measured,
            runnable=runnable,
            form=form,
        )


def print_explanation(screen: Console, told: Explanation, plan: Plan) -> None:
    """Print what each choice is worth, what would help, and what holds the plan back."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("choice", "here", "best otherwise"):
        table.add_column(title, overflow="fold")
    table.add_column("a step", justify="right")
    if any(choice.price_change is not None for choice in told.choices):
        table.add_column("a token", justify="right")
    for row in choice_rows(told, plan)[:CHOICES_MAX]:
        table.add_row(*row[: len(table.columns)])
    screen.print()
    screen.print(table)
    if len(told.choices) > CHOICES_MAX:
        screen.print(f"and {counted(len(told.choices) - CHOICES_MAX, 'choice')} more of less weight; --json lists all.")
    screen.print()
    for line in explanation_lines(told, plan):
        screen.print(Text(line, overflow="fold"))


def choice_rows(told: Explanation, plan: Plan) -> list[tuple[str, ...]]:
    """Write choices as rows of the table, those that change the step most first."""
    rows: list[tuple[str, ...]] = []
    for choice in sorted(told.choices, key=lambda choice: -abs(choice.change or 0.0)):
        large = f"{' and '.join(choice.too_large)} do{'' if len(choice.too_large) > 1 else 'es'} not fit"
        other = "; ".join(filter(None, [choice.instead, large if choice.too_large else ""]))
        step = "" if choice.change is None else marked(change_text(choice.change), plan.emulated)
        token = "" if choice.price_change is None else change_text(choice.price_change)
        rows.append((choice.name, choice.here, other or "nothing else that fits", step, token))
    return rows


def explanation_lines(told: Explanation, plan: Plan) -> Iterator[str]:
    """Say in lines what binds, what would help, how full memory is, the gap, and what was left out."""
    binding = [f"{what} {marked(share_text(share), plan.emulated)}" for what, share in told.binding[:BINDING_MAX]]
    yield f"what binds: {', then '.join(binding) or 'nothing above 0.1 %'}."
    eased = [
        f"{one.what} {marked(share_text(one.gain), plan.emulated)}" for one in told.eased if one.gain > EASED_SHARE_MIN
    ]
    yield f"a step would be shorter by, each alone: {'; '.join(eased) or 'nothing that was tried helps'}."
    rooms = [
        f"{room.chip_class} {size_text(room.memory_gb)} of {size_text(room.limit_gb)} GB on stage {room.stage} of "
        f"{room.stages}, {size_text(room.reserve_gb)} GB of it in reserve, {size_text(room.spare_gb)} GB left"
        for room in told.rooms
    ]
    yield f"memory, fullest stages: {'; '.join(rooms)}."
    for reason in told.left_out[:LEFT_OUT_MAX]:
        yield f"not planned with: {reason}"
    if len(told.left_out) > LEFT_OUT_MAX:
        yield f"and {counted(len(told.left_out) - LEFT_OUT_MAX, 'reason')} more; --json lists all."


def change_text(change: float) -> str:
    """Write a change in percent with its sign.

    >>> change_text(0.031), change_text(-0.2)
    ('+3.1 %', '-20.0 %')
    """
    return f"{change * 100:+.1f} %"
