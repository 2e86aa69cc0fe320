"""`argosy explain`: why a job waits, or what became of it, and its story."""

from typing import Annotated

import typer

from argosy.cli.remote import JsonOption, ServerOption, connect, moment, plain, print_json, say, since
from argosy.cli.words import counted
from argosy.server.models import Explanation

STORY_SHOWN = 12


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the name of one.")],
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Say why a job waits: what it needs beside what is free, who is in the way, when it would start, what helps."""
    with connect(server) as client:
        found = client.explain(job)
    if as_json:
        print_json(found)
    else:
        show(found)


def show(found: Explanation) -> None:
    """Print an explanation."""
    waits = bool(found.needs or found.ahead) or found.state in ("waiting", "reserved")
    head = f"{found.state} {since(found.since_us)} in {found.queue}" if waits else f"{found.state} in {found.queue}"
    typer.echo(f"{found.name} ({found.job})   {head}   {found.code}".rstrip())
    if found.text:
        typer.echo(f"  {plain(found.text)}")
    for need in found.needs:
        near = f" within one {need.near}" if need.near not in ("any", "site", "node") else ""
        nodes = counted(need.nodes, f"{need.pool} node")
        say("needs", f"{nodes}{near}; {need.free} of {need.owned} are free   ({need.option})")
    for blocker in found.blockers:
        end = f", ends by {moment(blocker.ends_us)}" if blocker.ends_us else ", without a time limit"
        say("waits for", f"{blocker.name} ({blocker.job}){end}")
    if found.start_p50_us is not None:
        say("starts", f"at about {moment(found.start_p50_us)} (p90 {moment(found.start_p90_us)})")
    elif found.start_text:
        say("starts", f"nobody can tell when: {found.start_text}")
    if found.change:
        say("or", found.change)
    if waits:
        say("ahead of it", f"{counted(found.ahead, 'job')} of its queue" if found.ahead else "nothing in its queue")
    typer.echo("")
    for chapter in found.story[-STORY_SHOWN:]:
        say(moment(chapter.at_us), "; ".join(chapter.did))
