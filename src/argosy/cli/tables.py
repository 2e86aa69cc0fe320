"""Tables that fit their screen: where one is too wide for it, the columns that matter least are told apart.

Lays out text; it must not know what it says.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence

from rich.console import JustifyMethod
from rich.table import Table

# Fewer columns than these don't hold a whole table.
WIDE = 100
NO_BREAK = "\xa0"
UNIT_AFTER = re.compile(r"(?<=\d) (?=(?:%|[A-Za-z]{1,2}(?:/s)?(?![\w-])|days?\b|min\b))")


def fitting(
    columns: Mapping[str, Sequence[str]], width: int, expendable: Sequence[str], whole: Sequence[str] = ()
) -> list[str]:
    """Choose the columns that a screen holds. columns: the texts of each, by title.

    expendable: titles that are left out for want of room, in this order. whole: titles of columns whose texts are
    never broken; in others a line is at least as long as the longest word.

    >>> fitting({"a": ["one two"], "b": ["three"]}, 8, ["a"]), fitting({"a": ["one two"], "b": ["three"]}, 9, ["a"])
    (['b'], ['a', 'b'])
    """
    needed = {title: least_width(title, texts, title in whole) for title, texts in columns.items()}
    kept = list(columns)
    for title in expendable:
        if sum(needed[each] + gap(width) for each in kept) - gap(width) <= width:
            break
        if title in kept:
            kept.remove(title)
    return kept


def least_width(title: str, texts: Sequence[str], whole: bool) -> int:
    """Count the characters that a column can't do without.

    >>> least_width("a long title", ["1 of 2"], whole=False), least_width("a long title", ["1 of 2"], whole=True)
    (5, 6)
    """
    words = [word for text in (title, *(() if whole else texts)) for word in glued(text).split(" ")]
    lines = [line for text in texts if whole for line in text.splitlines()]
    return max(map(len, (*words, *lines)), default=0)


def made_table(
    columns: Mapping[str, Sequence[str]], width: int, left: Sequence[str], whole: Sequence[str] = ()
) -> Table:
    """Make a table of columns. left: titles of those that stand at the left; whole: as for `fitting`."""
    table = Table(box=None, padding=(0, gap(width), 0, 0), pad_edge=False, header_style="bold")
    widths = column_widths(columns, width, whole)
    for title in columns:
        side: JustifyMethod = "left" if title in left else "right"
        table.add_column(title, justify=side, overflow="fold", width=widths[title])
    folded = [[broken(text, widths[title]) for text in texts] for title, texts in columns.items()]
    for row in zip(*folded, strict=True):
        table.add_row(*row)
    return table


def glued(text: str) -> str:
    """Join each number to the unit behind it, so that no line ends between them."""
    return UNIT_AFTER.sub(NO_BREAK, text)


def broken(text: str, width: int) -> str:
    r"""Break a text into lines of at most so many characters, never between a number and its unit.

    >>> broken("8.6 h, $10.5 k", 9)
    '8.6 h,\n$10.5 k'
    """
    lines = [line for part in text.split("\n") for line in textwrap.wrap(glued(part), max(1, width)) or [""]]
    return "\n".join(lines).replace(NO_BREAK, " ")


def column_widths(columns: Mapping[str, Sequence[str]], width: int, whole: Sequence[str]) -> dict[str, int]:
    """Share a screen out: every column what it can't do without, what is left to those that lack most of their text.

    >>> column_widths({"a": ["one two"], "b": ["one two three"]}, 18, [])
    {'a': 6, 'b': 11}
    """
    widths = {title: least_width(title, texts, title in whole) for title, texts in columns.items()}
    wanted = {
        title: max(map(len, (title, *(line for text in texts for line in text.splitlines()))))
        for title, texts in columns.items()
    }
    for _ in range(width - sum(widths.values()) - gap(width) * (len(columns) - 1)):
        lacking = [title for title in columns if widths[title] < wanted[title]]
        if not lacking:
            break
        widths[min(lacking, key=lambda title: widths[title] / wanted[title])] += 1
    return widths


def gap(width: int) -> int:
    """Give the blanks between columns."""
    return 1 if width < WIDE else 2
