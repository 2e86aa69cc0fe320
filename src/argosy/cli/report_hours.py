"""`argosy report`: chip-hours by queue and user."""

import time
from typing import Annotated

import typer

from argosy.cli.remote import SECOND_US, JsonOption, ServerOption, connect, print_json, print_table
from argosy.contracts.units import parse_duration_s


def command(
    last: Annotated[str, typer.Option(metavar="7d", help="Over so long up to now.")] = "7d",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Count chip-hours by queue and user."""
    now_us = time.time_ns() // 1000
    with connect(server) as client:
        found = client.report(from_us=max(0, now_us - round(parse_duration_s(last) * SECOND_US)), to_us=now_us)
    if as_json:
        print_json(found)
        return
    columns = {
        "queue": [*(row.queue for row in found.rows), "all"],
        "owner": [*(row.owner or "-" for row in found.rows), ""],
        "jobs": [*(f"{row.jobs:,}" for row in found.rows), f"{sum(row.jobs for row in found.rows):,}"],
        "chip-hours": [*(f"{row.chip_hours:,.3f}" for row in found.rows), f"{found.chip_hours:,.3f}"],
    }
    print_table(columns, ("queue", "owner"))
