"""`argosy down`: end the service of this host; what runs goes on."""

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.job_list import LIVE_STATES
from argosy.cli.up import alive
from argosy.cli.waiting import Waiting
from argosy.cli.words import counted
from argosy.client import Client
from argosy.contracts.errors import InfrastructureError
from argosy.server.place import default_folder, find_address, is_used, read_card

END_S = 30.0
POLL_S = 0.05


def command(
    state: Annotated[Path | None, typer.Option(help="The service's folder; by default $ARGOSY_STATE.")] = None,
    cancel_jobs: Annotated[bool, typer.Option(help="End all jobs first, and wait until they have ended.")] = False,
) -> None:
    """End the service of this host. Jobs that run go on, and the next `argosy up` finds them."""
    folder = (state or default_folder()).absolute()
    card = read_card(folder)
    if card is None or not is_used(folder):
        raise InfrastructureError(f"no service runs in {folder}")
    if cancel_jobs:
        with Client(find_address(folder=folder, url=card.url)) as client, Waiting("jobs are ending"):
            end_jobs(client)
    os.kill(card.pid, signal.SIGTERM)
    with Waiting("the service is ending"):
        until_s = time.monotonic() + END_S
        while alive(card.pid):
            if time.monotonic() > until_s:
                raise InfrastructureError(
                    f"pid {card.pid} has not ended after {END_S:g} s; `kill -9 {card.pid}` is safe"
                )
            time.sleep(POLL_S)
    typer.echo("ended, after all jobs" if cancel_jobs else "ended; jobs that run go on")


def end_jobs(client: Client) -> None:
    """End all jobs and wait for it. Raises InfrastructureError when it takes too long."""
    told: set[str] = set()
    until_s = time.monotonic() + END_S
    while left := client.jobs(states=LIVE_STATES, limit=1_000).jobs:
        for job in left:
            if job.id not in told:
                client.cancel(job.id)
        if new := {job.id for job in left} - told:
            # Those beyond one page come when the first have ended, and have their own time to.
            told |= new
            until_s = time.monotonic() + END_S
        if time.monotonic() > until_s:
            some = counted(len(left), "job")
            raise InfrastructureError(f"{some} not ended after {END_S:g} s; `argosy jobs` shows them")
        time.sleep(POLL_S)
