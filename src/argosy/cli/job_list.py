"""`argosy jobs`: the jobs there are, once or live."""

import time
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from argosy.cli.remote import SECOND_US, JsonOption, ServerOption, connect, counts_text, print_json, since, span
from argosy.cli.tables import fitting, made_table
from argosy.cli.words import console
from argosy.client import Client
from argosy.contracts.errors import BadInputError
from argosy.contracts.request import JOB_STATES
from argosy.server.models import JobList, JobView

REFRESH_S = 1.0
LEFT = ("job", "name", "queue", "state", "chips", "what")
EXPENDABLE = ("owner", "time", "chips")
LIVE_STATES = tuple(state for state in JOB_STATES if state != "ended")


def command(
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    queue: Annotated[str, typer.Option(help="Of one queue.")] = "",
    owner: Annotated[str, typer.Option(help="Of one user.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="In these states.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    watch: Annotated[bool, typer.Option(help="Show them live until Ctrl-C.")] = False,
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """List jobs, newest first: where they are, what they wait for, how far they are."""
    if watch and as_json:
        raise BadInputError("--watch and --json don't go together; `argosy events --json` streams what happens")
    for name in state or ():
        if name not in JOB_STATES:
            raise BadInputError(f"--state {name}: write one of {', '.join(JOB_STATES)}")
    states = tuple(state or (() if every else LIVE_STATES))
    with connect(server) as client:
        if watch:
            watch_jobs(client, queue, owner, states, limit)
            return
        found = client.jobs(queue=queue, owner=owner, states=states, limit=limit)
    if as_json:
        print_json(found)
    else:
        console().print(jobs_table(found, console().width))


def watch_jobs(client: Client, queue: str, owner: str, states: tuple[str, ...], limit: int) -> None:
    """Show jobs live."""
    screen = console()
    with Live(console=screen, auto_refresh=False, transient=False) as live:
        while True:
            live.update(jobs_table(client.jobs(queue, owner, states, limit=limit), screen.width), refresh=True)
            time.sleep(REFRESH_S)


def jobs_table(found: JobList, width: int) -> Table | str:
    """Lay jobs out."""
    rows = [row_of(job) for job in found.jobs]
    if not rows:
        return "no jobs; `argosy jobs --all` shows those that have ended"
    columns = {title: [row[title] for row in rows] for title in rows[0]}
    kept = fitting(columns, width, EXPENDABLE)
    return made_table({title: columns[title] for title in kept}, width, LEFT)


def row_of(job: JobView) -> dict[str, str]:
    """Give a job's cells."""
    return {
        "job": job.id,
        "name": job.name,
        "queue": job.queue,
        "owner": job.owner,
        "state": job.state,
        "chips": counts_text(job.chips),
        "time": time_of(job),
        "what": what_of(job),
    }


def time_of(job: JobView) -> str:
    """Say how long a job has been as it is; of one that ended, how long it took from its submission."""
    if job.ended_us is not None:
        return span((job.ended_us - job.submitted_us) / SECOND_US)
    return since(job.since_us)


def what_of(job: JobView) -> str:
    """Say in a few words what a job waits for, how far it is, or how it ended."""
    if job.progress is not None and job.state == "running":
        steps = f" of {job.progress.steps:,}" if job.progress.steps else ""
        loss = f", loss {job.progress.loss:.3f}" if job.progress.loss is not None else ""
        return f"step {job.progress.step:,}{steps}{loss}" + (", borrows" if job.borrows else "")
    if job.state == "running":
        return "borrows" if job.borrows else ""
    return job.why or job.reason
