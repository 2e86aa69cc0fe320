"""`argosy drain`: empty nodes."""

from typing import Annotated

import typer

from argosy.cli.node_intent import set_intent
from argosy.cli.remote import JsonOption, ServerOption
from argosy.contracts.units import parse_duration_s


def command(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")],
    deadline: Annotated[
        str, typer.Option(metavar="30m", help="After that, jobs are moved off; without it, they end by themselves.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why; kept in the audit log.")] = "",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Empty nodes: nothing new starts there, and what runs ends by itself or is moved at the deadline."""
    set_intent(nodes, "draining", reason, parse_duration_s(deadline) if deadline else None, server, as_json)
