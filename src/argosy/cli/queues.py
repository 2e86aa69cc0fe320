"""`argosy queues`: who owns what, and who borrows."""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.policy_file import policy_text
from argosy.cli.remote import JsonOption, ServerOption, connect, counts_text, print_json, print_table


def command(
    replace: Annotated[
        Path | None, typer.Option("--set", metavar="FILE", help="A queues.yaml that holds from now on.")
    ] = None,
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """List queues: what each owns, holds and borrows, and how many jobs wait and run."""
    policy = None if replace is None else policy_text(replace)
    with connect(server) as client:
        found = client.queues() if policy is None else client.set_queues(policy)
    if as_json:
        print_json(found)
        return
    columns = {
        "queue": [queue.name for queue in found],
        "owns": [counts_text(queue.guarantee) for queue in found],
        "holds": [counts_text(queue.held) for queue in found],
        "borrows": [counts_text(queue.borrowed) for queue in found],
        "running": [f"{queue.running:,}" for queue in found],
        "waiting": [f"{queue.waiting:,}" for queue in found],
    }
    print_table(columns, ("queue", "owns", "holds", "borrows"))
