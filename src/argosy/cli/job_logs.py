"""`argosy logs`: what a job's ranks wrote, merged by time, once or as it comes."""

import sys
from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, moment
from argosy.server.models import LogLine


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the name of one.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt ends.")] = False,
    rank: Annotated[int | None, typer.Option(min=0, help="Of one rank; by default of all.")] = None,
    attempt: Annotated[str, typer.Option(help="Of an earlier attempt, such as job-7.1 or job-7.1:2.")] = "",
    tail: Annotated[int, typer.Option(min=1, max=100_000, help="How many last lines of each rank.")] = 1_000,
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what a job's ranks wrote, merged by time; where one failed, that of the rank that failed first leads."""
    silent = True
    with connect(server) as client:
        if follow and (found := client.job(job)).state in ("waiting", "reserved"):
            why = f"{found.why}; `argosy explain {found.id}` says why"
            typer.echo(f"{found.id} waits: {why}, and its log follows once it has begun", err=True)
        for line in client.logs(job, rank=rank, attempt=attempt, tail=tail, follow=follow):
            sys.stdout.write((line.model_dump_json() if as_json else text_of(line, rank is None)) + "\n")
            sys.stdout.flush()
            silent = False
    if silent:
        typer.echo(f"its ranks wrote nothing; `argosy show {job}` tells how far it came", err=True)


def text_of(line: LogLine, with_rank: bool) -> str:
    """Write a line with its time, and its rank where there are several."""
    who = f"rank {line.rank:<4} " if with_rank else ""
    return f"{moment(line.at_us):>8}  {who}{line.text}"
