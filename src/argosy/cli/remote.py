"""What commands that talk with the service share: finding it, `--json`, times in words, tables.

Knows how things are shown; it must not know any command.
"""

import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from pydantic import BaseModel

from argosy.cli.tables import fitting, made_table
from argosy.cli.words import console
from argosy.client import Client
from argosy.server.place import find_address

ServerOption = Annotated[
    str, typer.Option("--server", metavar="URL", help="The server; by default $ARGOSY_SERVER, else this host's.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the API's own answer as JSON.")]
SECOND_US = 1_000_000
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
BLANKS = "\n\t\xa0"


def connect(server: str) -> Client:
    """Make a client. Raises InfrastructureError where no server is known."""
    return Client(find_address(url=server), told=lambda text: typer.echo(text, err=True))


def print_json(value: BaseModel | Sequence[BaseModel]) -> None:
    """Print what the API gave."""
    if isinstance(value, BaseModel):
        sys.stdout.write(value.model_dump_json(indent=2) + "\n")
    else:
        sys.stdout.write("[" + ",\n".join(one.model_dump_json(indent=2) for one in value) + "]\n")


def print_table(columns: Mapping[str, Sequence[str]], left: Sequence[str], expendable: Sequence[str] = ()) -> None:
    """Print a table as wide as the screen; expendable: columns that are left out first."""
    screen = console()
    kept = fitting(columns, screen.width, expendable)
    screen.print(made_table({title: columns[title] for title in kept}, screen.width, left))


def plain(text: str) -> str:
    """Give a text on one line without what steers a terminal: jobs' own words are in it, and anybody hands jobs in.

    >>> plain(f"done{chr(27)}[2J{chr(10)}really")
    'done?[2J really'
    """
    kept = (" " if letter in BLANKS else letter for letter in text)
    return "".join(letter if letter == " " or unicodedata.category(letter)[0] not in "CZ" else "?" for letter in kept)


def say(label: str, text: str) -> None:
    """Print one line of what is told: a label and words."""
    sys.stdout.write(f"  {label:<10}  {plain(text)}\n")


def span(seconds: float) -> str:
    """Write a duration.

    >>> span(0.4), span(12.34), span(100), span(5000), span(200000)
    ('0.4 s', '12.3 s', '1:40', '1:23:20', '2 d 7:33:20')
    """
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    days, rest = divmod(whole, DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, left = divmod(rest, MINUTE_S)
    clock = f"{hours}:{minutes:02}:{left:02}" if hours or days else f"{minutes}:{left:02}"
    return f"{days} d {clock}" if days else clock


def since(at_us: int | None) -> str:
    """Write how long ago something was; a dash where it never was."""
    return "-" if at_us is None else span(max(0.0, time.time() - at_us / SECOND_US))


def moment(at_us: int | None) -> str:
    """Write a time: that of the day, with the date unless it is today's."""
    if at_us is None:
        return "-"
    then, now = time.localtime(at_us / SECOND_US), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def counts_text(counts: Mapping[str, int]) -> str:
    """Write counts by name; a dash for none.

    >>> counts_text({"h800-sxm": 4}), counts_text({})
    ('4 h800-sxm', '-')
    """
    return " + ".join(f"{count:,} {name}" for name, count in counts.items()) or "-"
