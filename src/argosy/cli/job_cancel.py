"""`argosy cancel`: end jobs."""

from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, print_json


def command(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids, or names of jobs.")],
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """End jobs: their ranks get SIGTERM, time to save and leave, then SIGKILL."""
    with connect(server) as client:
        over = {job.id for job in (client.job(name) for name in jobs) if job.state == "ended"}
        found = [client.cancel(job) for job in jobs]
    if as_json:
        print_json(found)
        return
    for job in found:
        state = "had ended before" if job.id in over else job.state
        typer.echo(f"{job.id} ({job.name}) {state}" + (f": {job.reason}" if job.reason else ""))
