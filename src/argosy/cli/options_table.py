"""The options of a job as a table, for `argosy plan` and `argosy train`.

Lays out text that the room `plan` wrote; computes nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill

from rich.table import Table

from argosy.cli.tables import WIDE, fitting, made_table
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import option_rows

OPTION_WIDTH, NARROW_OPTION_WIDTH = 24, 13
LONG_LINK, COST = "over the long link", "$ per 1T tokens"
TITLES = {
    "option": "option",
    "chips": "chips",
    "step": "step",
    "tokens/s": "tokens_per_second",
    "MFU": "mfu",
    COST: "cost",
    "efficiency": "efficiency",
    LONG_LINK: "long_link",
}
FOLDED = ("chips", LONG_LINK)
EXPENDABLE = (LONG_LINK, "efficiency", "MFU", COST)


def options_table(plans: Sequence[Plan], goal: str, width: int) -> tuple[Table, tuple[str, ...]]:
    """Make the table of options; gives the titles of the columns too that a narrow screen has no room for."""
    rows = [asdict(row) for row in option_rows(plans, goal)]
    columns = {title: [row[field] for row in rows] for title, field in TITLES.items()}
    if all(text == "-" for text in columns[COST]):
        del columns[COST]
    columns = {"#": [str(number) for number, _ in enumerate(rows, 1)], **columns}
    broken = OPTION_WIDTH if width >= WIDE else NARROW_OPTION_WIDTH
    columns["option"] = [fill(text, broken, break_long_words=False) for text in columns["option"]]
    whole = [title for title in columns if title not in FOLDED]
    held = {title: texts for title, texts in columns.items() if title != LONG_LINK or width >= WIDE}
    kept = fitting(held, width, EXPENDABLE, whole)
    table = made_table({title: columns[title] for title in kept}, width, ("option", *FOLDED), whole)
    return table, tuple(title for title in columns if title not in kept)
