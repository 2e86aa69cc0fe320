"""What several commands write alike: figures, counts, and the console they are printed on."""

import os

from rich.console import Console

WIDTH = 100


def console(width: int = WIDTH) -> Console:
    """Make a console as wide as COLUMNS says, else as the terminal; `width` columns where there is neither."""
    made = Console(highlight=False)
    told = made.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    return made if told else Console(highlight=False, width=width)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Write a count with its noun. nouns: the plural, where it isn't noun + s.

    >>> counted(1, "chip"), counted(2400, "chip"), counted(2, "class", "classes")
    ('1 chip', '2,400 chips', '2 classes')
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def figure_text(value: float | None) -> str:
    """Write a figure with at most four digits that matter; a dash where it is unknown."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
