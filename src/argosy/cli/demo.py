"""`argosy demo`: train a small model on emulated nodes in two sites, with what it shows at the end.

The job and the fleet are files beside this one. Everything else is `argosy train`.
"""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.attempt import Wishes
from argosy.cli.demo_inputs import across_sites, demo_inputs
from argosy.cli.demo_screen import DemoScreen
from argosy.cli.running import run
from argosy.cli.train import JsonOption, with_json


def command(
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Optimizer steps.")] = 30,
    directory: Annotated[Path, typer.Option(help="Where the run's files go.")] = Path("runs/demo"),
    trace: Annotated[
        Path | None, typer.Option(help="Where the Perfetto trace goes; else DIRECTORY/trace.json.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a small Llama on two kinds of emulated chips in two sites 50 km apart, on this machine's CPU.

    The text is the Python standard library's source code. Times of emulated chips are marked ~.
    """
    inputs = demo_inputs(steps)
    where = trace or directory / "trace.json"
    wishes = Wishes(directory=directory, trace=True)
    if as_json:
        with_json(lambda watcher: run(inputs, None, wishes, where, watcher, across_sites(inputs)))
        return
    with DemoScreen() as screen:
        run(inputs, None, wishes, where, screen, across_sites(inputs))
