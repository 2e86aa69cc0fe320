"""`argosy profile`: measure how long a job's layers take on this machine, for `argosy plan` and `argosy train`.

It chooses what to measure and writes the file; the room `train` measures.
"""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.files import check_apart, check_file, write_text
from argosy.cli.inputs import read_inputs
from argosy.cli.jobs import load_model
from argosy.cli.machine import find_group, read_degrees
from argosy.cli.waiting import Waiting
from argosy.contracts.codec import encode
from argosy.contracts.profile import Profile, ProfileEntry, ProfileTable
from argosy.train.profiling import Asked, device_name, measure

MICROBATCH_SIZES = (1, 2, 4)
RECOMPUTES = ("none", "full")


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job.yaml: its model, sequence length and precision.")],
    out: Annotated[Path, typer.Option(help="The profile to write.")],
    chip: Annotated[str, typer.Option(help="A chip of this machine, by the catalogue; by default what is found.")] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job, e.g. train.microbatch_size=2."),
    ] = None,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    tp: Annotated[str, typer.Option(help="TP degrees to measure, such as 1,2,4.")] = "1",
    seconds: Annotated[float, typer.Option(min=0.01, max=60.0, help="How long to time each piece of work.")] = 0.5,
) -> None:
    """Time a job's embedding, layers and head on this machine, forward, backward and update, and write a profile."""
    check_file(out, "--out")
    check_apart((job, catalogue), [("--out", out)])
    inputs = read_inputs(job, settings or (), None, catalogue)
    group = find_group(inputs.fleet.nodes, chip)
    shape, _ = load_model(inputs.job, inputs.job_source)
    train = inputs.job.train
    device = inputs.catalogue.chip(group.chip).torch_device
    # A chip of the kind `cpu` is one core; all cores of a machine work at once, and slow one another down.
    copies = group.chips_per_node if device == "cpu" else 1
    asked = Asked(
        shape=shape,
        sequence_length=train.sequence_length,
        precision=train.precision,
        microbatch_sizes=(train.microbatch_size,) if train.microbatch_size else MICROBATCH_SIZES,
        degrees=read_degrees(tp, group.chips_per_node),
        recomputes=(train.recompute,) if train.recompute else RECOMPUTES,
        device=device,
        threads=1 if device == "cpu" else 0,
        seconds=seconds,
    )
    with Waiting("measuring"):
        entries = measure(asked, copies)
    table = ProfileTable(
        chip=group.chip,
        precision=train.precision,
        sequence_length=train.sequence_length,
        entries=entries,
        device=device_name(device),
        copies=copies,
    )
    write_text(out, encode(Profile(tables=(table,))).decode() + "\n")
    for entry in table.entries:
        typer.echo(line(entry))
    typer.echo(f"{out}: {len(table.entries)} entries for {group.chip}; a plan by it has TP {tp} and nothing else")


def line(entry: ProfileEntry) -> str:
    """Put an entry in a line."""
    how = f"TP {entry.tp}, micro-batch {entry.microbatch_size}, recompute {entry.recompute}"
    times = f"forward {entry.forward_ms:.3g} ms, backward {entry.backward_ms:.3g} ms, update {entry.update_ms:.3g} ms"
    return f"{entry.unit}   {how}   {times}"
