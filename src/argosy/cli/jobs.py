"""A job file and the model it names, read together with `--set`.

Reads and checks; it must not know fleets or plans.
"""

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from argosy.cli.files import read_text
from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.contracts.job import Job
from argosy.contracts.job_file import read_job
from argosy.model.config import read_config
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape

DATE_LENGTH = len("2026-12-24")
DAY_S = 86400


@contextmanager
def told_of(source: str, about: str = "") -> Iterator[None]:
    """Let errors begin with the file whose content they are about; about: only those whose text begins so."""
    try:
        yield
    except ArgosyError as error:
        if not str(error).startswith(about):
            raise
        raise type(error)(f"{source}: {error}") from error


def load_job(path: Path, overrides: Sequence[str]) -> Job:
    """Read a job file by its path; overrides: what `--set` was given."""
    return read_job(read_text(path, "job file", "docs/job.md shows one"), str(path), overrides)


def load_model(job: Job, source: str) -> tuple[ModelShape, str]:
    """Find a job's model; gives its shape and the text of its config.json. source: the job file, for errors."""
    with told_of(source):
        text, origin = config_text(job.model)
    return read_config(text, origin), text


def seconds_left(job: Job, now: datetime.datetime) -> float | None:
    """Time until a job's deadline, None without one; without a zone it is local, and a date ends with its day."""
    deadline = job.objective.deadline
    if deadline is None:
        return None
    end = datetime.datetime.fromisoformat(deadline)
    end = end if end.tzinfo else end.replace(tzinfo=now.tzinfo)
    # Added as seconds, since the day after 9999-12-31 is beyond the calendar.
    left = (end - now).total_seconds() + (DAY_S if len(deadline) <= DATE_LENGTH else 0)
    if left <= 0:
        raise BadInputError(f"objective.deadline: {deadline} has passed; write one to come, or fastest or cheapest")
    return left


def shadow_note(model: str) -> str:
    """Say that a named configuration hides a file or folder of the same name; empty when it doesn't."""
    if model in named_configs() and Path(model).exists():
        return f"model {model} is the configuration that ships with Argosy; write ./{model} for the folder here"
    return ""
