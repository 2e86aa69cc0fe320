"""What `argosy cordon`, `drain` and `uncordon` share: telling what people want of nodes."""

from typing import Literal

import typer

from argosy.cli.checking import checked
from argosy.cli.nodes import state_of
from argosy.cli.remote import connect, print_json
from argosy.server.models import IntentWish

Intent = Literal["open", "cordoned", "draining"]


def set_intent(
    nodes: list[str], intent: Intent, reason: str, deadline_s: float | None, server: str, as_json: bool
) -> None:
    """Tell the service what is wanted of nodes, and show how they are now."""
    with checked():
        wish = IntentWish(intent=intent, reason=reason, deadline_s=deadline_s)
    with connect(server) as client:
        found = [client.set_intent(node, wish) for node in nodes]
    if as_json:
        print_json(found)
        return
    for node in found:
        typer.echo(f"{node.name}: {state_of(node)}" + (f", {node.job} runs there" if node.job else ""))
