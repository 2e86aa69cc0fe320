"""The one screen that a run ends with when it didn't finish: what failed, where, the log's last lines, what next.

Turns an Outcome into the error whose class carries the exit code. It must not print.
"""

from pathlib import Path

from argosy.cli.attempt import Outcome
from argosy.contracts.blame import ARGOSY
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, InterruptedByUserError
from argosy.contracts.job import Job
from argosy.contracts.messages import Failed, RankExited
from argosy.contracts.paths import checkpoint_step
from argosy.engine.failure import failure_error
from argosy.train.checkpoint_folder import checkpoints

TAIL_BYTES, TAIL_LINES = 8192, 10


def ending(job: Job, outcome: Outcome, directory: Path) -> ArgosyError | None:
    """Say why an attempt didn't finish; None when it did."""
    if outcome.interrupted:
        return InterruptedByUserError(f"interrupted {_where(job, outcome)}\n{_resume_hint(job, outcome)}")
    if outcome.failure is None:
        return None
    error = failure_error(outcome.failure)
    lines = [f"failed {_where(job, outcome)}", str(error), *_log_lines(outcome.failure, directory)]
    return type(error)("\n".join([*lines, *_next_lines(error, job, outcome)]))


def newest_checkpoint(job: Job) -> Path | None:
    """Find the newest whole checkpoint where the job saves them."""
    return None if job.checkpoint is None else newest_in(Path(job.checkpoint.to))


def newest_in(folder: Path) -> Path | None:
    """Find the newest whole checkpoint in a folder."""
    return next(reversed(checkpoints(folder)), None)


def _where(job: Job, outcome: Outcome) -> str:
    done = outcome.steps[-1].step if outcome.steps else 0
    return f"after step {done} of {job.train.steps}" if done else "before the first step was done"


def _resume_hint(job: Job, outcome: Outcome) -> str:
    """Say where the last checkpoint is and what the same command would do."""
    if job.checkpoint is None:
        return "no checkpoint: the job has no `checkpoint:`, so the same command starts from step 0"
    path = outcome.saved or newest_checkpoint(job)
    if not path:
        return f"no checkpoint was saved in {job.checkpoint.to} yet; the same command starts from step 0"
    step = checkpoint_step(Path(path).name)
    what = f"goes on from step {step}" if job.checkpoint.resume else "starts from step 0 (checkpoint.resume is no)"
    return f"last checkpoint: {path}; the same command {what}"


def _log_lines(failure: Failed | RankExited, directory: Path) -> list[str]:
    """Show the end of the failing rank's log where the message itself doesn't say it all."""
    if failure.rank < 0:
        return [f"logs: {directory / 'logs'}"]
    path = directory / "logs" / f"rank-{failure.rank}.log"
    if isinstance(failure, Failed) and failure.blame != ARGOSY:
        return [f"log: {path}"]
    tail = log_tail(path)
    return [f"the end of {path}:", *(f"  {line}" for line in tail)] if tail else [f"log: {path} (empty)"]


def log_tail(path: Path) -> list[str]:
    """Read the last lines of a log; none when it is absent or empty."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def _next_lines(error: ArgosyError, job: Job, outcome: Outcome) -> list[str]:
    if _is_of_checkpoint(error, job):  # it would fail again
        return []
    if isinstance(error, InfrastructureError):
        return [f"what next: {_resume_hint(job, outcome)}"]
    if error.exit_code == ArgosyError.exit_code:
        return [f"this is a bug in Argosy; please report it with the log. {_resume_hint(job, outcome)}"]
    return [f"what next: put that right and run the same command; {_resume_hint(job, outcome)}"]


def _is_of_checkpoint(error: ArgosyError, job: Job) -> bool:
    """Tell whether the checkpoint to go on from is itself what is wrong; its text then says what to do about it."""
    if job.checkpoint is None or not isinstance(error, BadInputError):
        return False
    return str(Path(job.checkpoint.to) / "step-") in str(error)
