"""`argosy submit`: hand a job in, and say what becomes of it; with --dry-run say what would."""

import time
from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.dry_run import show_dry_run
from argosy.cli.handing_in import hand_in, submission_of
from argosy.cli.remote import JsonOption, ServerOption, connect, print_json
from argosy.cli.waiting import Waiting
from argosy.client import Client
from argosy.contracts.errors import (
    ArgosyError,
    InfrastructureError,
    InterruptedByUserError,
    NeverFitsError,
    UserCodeError,
)
from argosy.server.models import JobView

SETTLE_S = 10.0
POLL_S = 0.1
WATCH_S = 0.5
ENDINGS: dict[str, type[ArgosyError]] = {
    "never_fits": NeverFitsError,
    "failed_user": UserCodeError,
    "failed_infrastructure": InfrastructureError,
    "stopped": InterruptedByUserError,
    "time_limit": UserCodeError,
}


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job.yaml.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job, e.g. train.steps=5."),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would become of it; run nothing.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it has ended, and leave with its exit code.")] = False,
    key: Annotated[str, typer.Option(help="Of this request: the same key makes one job, however often.")] = "",
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Hand a job in to the service."""
    with connect(server) as client:
        submission = submission_of(job, settings or [])
        if dry_run:
            with Waiting():
                answer = client.dry_run(submission)
            if as_json:
                print_json(answer)
            else:
                show_dry_run(answer)
            if answer.state == "refused":
                raise NeverFitsError(answer.text)
            return
        found = hand_in(client, submission, key)
        if not as_json:
            typer.echo(f"{found.id} ({found.name}) handed in to queue {found.queue}")
        with Waiting(f"{found.id} runs or waits" if wait else f"{found.id} is being planned"):
            found = settled(client, found, WATCH_S if wait else POLL_S, None if wait else SETTLE_S)
    if as_json:
        print_json(found)
    else:
        typer.echo(words_of(found))
    if found.reason in ENDINGS and found.state == "ended":
        raise ENDINGS[found.reason](f"{found.name}: {found.reason}: {found.text}")


def settled(client: Client, job: JobView, poll_s: float, patience_s: float | None) -> JobView:
    """Wait until a job has ended, or with patience_s only until it is known whether it starts."""
    until_s = time.monotonic() + (patience_s or 0.0)
    while job.state != "ended":
        if patience_s is not None and (job.attempt or job.why not in ("", "NO_OPTIONS", "NEXT_PASS")):
            break
        if patience_s is not None and time.monotonic() > until_s:
            break
        time.sleep(poll_s)
        job = client.job(job.id)
    return job


def words_of(job: JobView) -> str:
    """Say how a job is."""
    if job.state == "ended":
        return f"ended: {job.reason}"
    if job.attempt:
        return f"starts on {', '.join(job.nodes)}"
    return f"waits: {job.why}; `argosy explain {job.id}` says why"
