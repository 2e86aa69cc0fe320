"""`argosy nodes`: the nodes there are."""

from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, moment, print_json, print_table, since
from argosy.server.models import NodeView

LEFT = ("node", "class", "state", "job")
EXPENDABLE = ("heard", "rack", "class")


def command(
    server: ServerOption = "",
    as_json: JsonOption = False,
    retired: Annotated[bool, typer.Option(help="Also those that left for good.")] = False,
) -> None:
    """List nodes: what is observed of each, what people want of it, what runs there."""
    with connect(server) as client:
        found = client.nodes()
    if as_json:
        print_json(found)
        return
    shown = [node for node in found if retired or node.observed != "retired"]
    columns = {
        "node": [node.name for node in shown],
        "class": [node.chip_class for node in shown],
        "chips": [f"{node.chips:,}" for node in shown],
        "rack": ["-" if node.rack is None else str(node.rack) for node in shown],
        "state": [state_of(node) for node in shown],
        "heard": [f"{since(node.heard_us)} ago" if node.heard_us else "-" for node in shown],
        "job": [node.job or node.attempt for node in shown],
    }
    print_table(columns, LEFT, EXPENDABLE)


def state_of(node: NodeView) -> str:
    """Say how a node is: what is observed, and whatever keeps jobs away."""
    by = "" if node.empty_by_us is None else f" by {moment(node.empty_by_us)}"
    marks = [f"{node.intent}{by}"] if node.intent != "open" else []
    marks += [node.trust] if node.trust != "ok" else []
    marks += ["spare"] if node.spare else []
    text = ", ".join([node.observed, *marks])
    return f"{text} ({node.reason})" if node.reason else text
