"""`argosy train`: run a training job on a fleet, plan first, predicted beside measured at the end."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from argosy.cli.attempt import Wishes
from argosy.cli.ended import Ended
from argosy.cli.inputs import Inputs, read_inputs
from argosy.cli.jsonlines import JsonLines
from argosy.cli.running import Watcher, run
from argosy.cli.train_screen import TrainScreen
from argosy.contracts.errors import ArgosyError, InterruptedByUserError
from argosy.contracts.job import CheckpointSpec

PORT_MAX = 65_535
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON lines, one an event; `result` comes last.")]


def command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job.yaml.")],
    fleet: Annotated[Path | None, typer.Option(help="A fleet.yaml; by default this machine.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the job, e.g. train.steps=5."),
    ] = None,
    as_json: JsonOption = False,
    trace: Annotated[Path | None, typer.Option(help="Write what every rank did as a Perfetto trace.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the run's files go; by default runs/NAME.")] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="N|FILE", help="Run plan N of `argosy plan --runnable`, or a plan.json.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=PORT_MAX, help="Where ranks meet on this machine; 0: any.")] = 0,
    catalogue: Annotated[Path | None, typer.Option(help="A file that adds chips or replaces figures.")] = None,
    profile: Annotated[list[Path] | None, typer.Option(help="Measured times, from `argosy profile`.")] = None,
) -> None:
    """Train one model on a fleet: show the plan, train, and set what was measured beside what was predicted."""

    def work(watcher: Watcher) -> None:
        inputs = read_inputs(job, settings or (), fleet, catalogue, profile or ())
        where = directory or Path("runs") / inputs.job.name
        inputs = with_checkpoint(inputs, where)
        run(inputs, plan, Wishes(directory=where, trace=trace is not None, port=port), trace, watcher)

    if as_json:
        with_json(work)
        return
    with TrainScreen() as screen:
        work(screen)


def with_checkpoint(inputs: Inputs, directory: Path) -> Inputs:
    """Let a job that exports save at its end, also when it asks for no checkpoints."""
    job = inputs.job
    if job.export_to is None or job.checkpoint is not None:
        return inputs
    checkpoint = CheckpointSpec(to=str(directory / "checkpoints"), keep=1, resume=False)
    return replace(inputs, job=replace(job, checkpoint=checkpoint))


class TrainJson(JsonLines):
    """The JSON lines of `argosy train`."""

    done = False

    def ended(self, ended: Ended) -> None:
        """Write the result of a run that began."""
        self.done = True
        self.write(result_of(ended))


def with_json(work: Callable[[Watcher], None]) -> None:
    """Do the work with JSON lines; an error before the run's end gets its `result` too."""
    watcher = TrainJson()
    try:
        work(watcher)
    except BrokenPipeError:
        raise
    except BaseException as error:
        if not watcher.done:
            watcher.write(early_result(error))
        raise


def early_result(error: BaseException) -> dict[str, Any]:
    """Put an end that came before the run's own into one object: bad input, an interrupt, a bug."""
    state, code, text = "failed", ArgosyError.exit_code, f"a bug in Argosy: {type(error).__name__}: {error}"
    if isinstance(error, ArgosyError):
        state, code, text = "refused", error.exit_code, str(error)
    elif isinstance(error, KeyboardInterrupt):
        state, code, text = "interrupted", InterruptedByUserError.exit_code, "interrupted"
    return {"type": "result", "state": state, "exit_code": code, "error": text}


def result_of(ended: Ended) -> dict[str, Any]:
    """Put a run's end into one object."""
    error = ended.error
    state = "interrupted" if ended.outcome.interrupted else "finished" if error is None else "failed"
    return {
        "type": "result",
        "state": state,
        "exit_code": 0 if error is None else error.exit_code,
        "error": None if error is None else str(error),
        "emulated": ended.choice.plan.emulated,
        "steps": ended.outcome.steps[-1].step if ended.outcome.steps else 0,
        "predicted": ended.choice.plan.prediction,
        "measured": ended.measured,
        "warning": ended.warning or None,
        "checkpoint": ended.outcome.saved or None,
        "directory": str(ended.directory),
        "report": str(ended.report) if ended.report else None,
        "trace": str(ended.trace) if ended.trace else None,
        "export": str(ended.export) if ended.export else None,
    }
