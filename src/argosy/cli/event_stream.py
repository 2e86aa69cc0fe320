"""`argosy events`: what happens, as it happens."""

import sys
from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, moment, plain


def command(
    after: Annotated[
        str, typer.Option(help="Go on after the event of this id, which --json shows; 0 for all that is kept.")
    ] = "",
    about: Annotated[str, typer.Option(help="Only of this job or node.")] = "",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Stream what happens until Ctrl-C; it goes on by itself when the server comes back."""
    with connect(server) as client:
        for event in client.events(after):
            if about and event.about != about and not event.about.startswith(f"{about}."):
                continue
            line = f"{moment(event.at_us)}  {line_of(event.kind, event.about, event.text)}"
            sys.stdout.write((event.model_dump_json() if as_json else line) + "\n")
            sys.stdout.flush()


def line_of(kind: str, about: str, text: str) -> str:
    """Write an event in one line."""
    return f"{kind:<18} {about:<12} {plain(text)}".rstrip()
