"""`argosy retire`: strike nodes out for good."""

from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, print_json


def command(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes; no other gets them again.")],
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Strike nodes out for good: their agents are let in no more, and what runs there recovers elsewhere."""
    with connect(server) as client:
        found = [client.retire(node) for node in nodes]
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(f"{node.name}: {node.observed}" for node in found))
