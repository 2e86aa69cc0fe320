"""`argosy uncordon`: let jobs start on nodes again."""

from typing import Annotated

import typer

from argosy.cli.node_intent import set_intent
from argosy.cli.remote import JsonOption, ServerOption


def command(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the audit log.")] = "",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Let jobs start on nodes again that were cordoned or drained."""
    set_intent(nodes, "open", reason, None, server, as_json)
