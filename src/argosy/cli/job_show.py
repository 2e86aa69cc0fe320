"""`argosy show`: one job, its attempts, predicted beside measured."""

from collections.abc import Callable
from typing import Annotated

import typer

from argosy.cli.job_list import what_of
from argosy.cli.remote import (
    SECOND_US,
    JsonOption,
    ServerOption,
    connect,
    counts_text,
    moment,
    print_json,
    print_table,
    say,
    span,
)
from argosy.cli.words import counted, figure_text
from argosy.server.models import AttemptView, Figures, JobDetail

FIGURES: tuple[tuple[str, bool, Callable[[Figures], float | None]], ...] = (
    ("wait, s", False, lambda found: found.wait_s),
    ("start, s", False, lambda found: found.start_s),
    ("step, ms", True, lambda found: found.step_ms),
    ("tokens/s", True, lambda found: found.tokens_per_second),
    ("memory, GB", False, lambda found: found.memory_gb),
    ("$ per 1T tokens", True, lambda found: found.cost_per_trillion_tokens),
    ("cost, $", True, lambda found: found.cost),
)
"""Name, whether it is of the emulated clock where there is one, and where it is found."""


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or the name of one.")],
    document: Annotated[bool, typer.Option(help="Also the job.yaml that was handed in.")] = False,
    server: ServerOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show a job: its state, its attempts, and what was predicted beside what was measured."""
    with connect(server) as client:
        found = client.job(job)
    if as_json:
        print_json(found)
        return
    show(found)
    if document:
        typer.echo("\n" + found.document)


def show(job: JobDetail) -> None:
    """Print a job."""
    say("job", f"{job.id}   {job.name}   kind {job.kind}   queue {job.queue}   owner {job.owner or '-'}")
    say("state", ", ".join(filter(None, (job.state, what_of(job), job.text))))
    say("submitted", moment(job.submitted_us) + (f"   ended {moment(job.ended_us)}" if job.ended_us else ""))
    if job.attempt:
        say("runs on", f"{', '.join(job.nodes)}   {counts_text(job.chips)}" + ("   borrows" if job.borrows else ""))
    if job.evictions or job.retries:
        say("spent", counts_text({**job.retries, **({"evictions": job.evictions} if job.evictions else {})}))
    for attempt in job.attempts[-3:]:
        typer.echo("")
        show_attempt(attempt)


def show_attempt(attempt: AttemptView) -> None:
    """Print an attempt with its figures."""
    ran = attempt.ended_us - attempt.began_us if attempt.ended_us else None
    took = f"   took {span(ran / SECOND_US)}" if ran is not None else ""
    where, chips = ", ".join(attempt.nodes[:8]), counted(attempt.chips, "chip")
    say(attempt.id, f"generation {attempt.generation} on {where}   {chips}{took}")
    emulated = attempt.predicted.emulated or attempt.measured.emulated
    rows = [
        (name, "~" if emulated and clocked else "", read(attempt.predicted), read(attempt.measured))
        for name, clocked, read in FIGURES
    ]
    rows = [row for row in rows if row[2] is not None or row[3] is not None]
    columns = {
        "": [f"  {name}" for name, _, _, _ in rows],
        "predicted": [mark_text(mark, value) for _, mark, value, _ in rows],
        "measured": [mark_text(mark, value) for _, mark, _, value in rows],
    }
    if attempt.measured.loss is not None:
        columns[""].append("  loss")
        columns["predicted"].append("-")
        columns["measured"].append(f"{attempt.measured.loss:.3f} after {counted(attempt.measured.steps or 0, 'step')}")
    print_table(columns, ("",))
    if attempt.wait_text:
        say("wait", f"not foretold: {attempt.wait_text}")


def mark_text(mark: str, value: float | None) -> str:
    """Write a figure, with its mark where there is one."""
    return figure_text(value) if value is None else mark + figure_text(value)
