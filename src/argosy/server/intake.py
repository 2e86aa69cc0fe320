"""From what a user hands in to what the core is told: the job read, its paths made whole, its claim.

Checks what can be checked without the fleet. Must not know state, store or HTTP.
"""

import datetime
import difflib
import posixpath
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.codec import encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.job import AnyJob, Job, RunJob
from argosy.contracts.policy import SECOND_US
from argosy.contracts.request import Claim
from argosy.contracts.run_file import read_any_job
from argosy.control.change import JobAdded, Record, Refused
from argosy.server.models import Submission

DAY_S = 86_400
YEARS_S = 100 * 365 * DAY_S
DATE_LENGTH = len("2026-12-24")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A job that was handed in, and what the core is told of it."""

    job: AnyJob
    claim: Claim
    submission: Submission

    @property
    def kept(self) -> bytes:
        """The job as the store keeps it."""
        return encode(self.job)


def take(submission: Submission, owner: str, now_us: int) -> Handed:
    """Read a submission. Raises BadInputError with the place of every mistake."""
    if submission.folder and not posixpath.isabs(submission.folder):
        raise BadInputError(f"folder: got {submission.folder!r}; write an absolute path, or leave it out")
    job = whole_paths(read_any_job(submission.document, submission.source, submission.settings), submission.folder)
    return Handed(job=job, claim=claim_of(job, owner, now_us), submission=submission)


def claim_of(job: AnyJob, owner: str, now_us: int) -> Claim:
    """Say what a job asks of the fleet. Raises BadInputError for times beyond all reason."""
    grace_s = job.run.stop_grace_s if isinstance(job, RunJob) else 0.0
    for name, value_s, most_s in (("time_limit", job.time_limit_s, YEARS_S), ("stop_grace", grace_s, DAY_S)):
        if value_s is not None and value_s > most_s:
            raise BadInputError(f"{name}: got {value_s:g} s; at most {most_s:,} s are allowed")
    limit_us = None if job.time_limit_s is None else max(1, round(job.time_limit_s * SECOND_US))
    if isinstance(job, RunJob):
        return Claim(
            name=job.name,
            queue=job.queue,
            owner=owner,
            kind="run",
            priority=job.priority,
            time_limit_us=limit_us,
            user_retries=job.run.restarts,
        )
    train, chips = job.train, job.chips
    return Claim(
        name=job.name,
        queue=job.queue,
        owner=owner,
        kind="train",
        priority=job.priority,
        time_limit_us=limit_us,
        goal=job.objective.goal,
        deadline_us=deadline_us(job.objective.deadline, now_us),
        work_tokens=train.steps * train.global_batch_size * train.sequence_length,
        # Another size means another start: only a job that saves what it did may be given one.
        elastic=job.checkpoint is not None and chips.maximum is not None and chips.maximum > chips.minimum,
    )


def check_chips(allow: Sequence[str], known: Collection[str]) -> None:
    """Raise BadInputError for a chip that nobody knows: a job that may have no other would never run."""
    for name in allow:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "`argosy chips` lists them"
            raise BadInputError(f"chips.allow: no chip {name} in the server's catalogue; {hint}")


def refusal_of(record: Record) -> str:
    """Say why the core did not take a job in; empty where it did."""
    if any(isinstance(change, JobAdded) for change in record.changes):
        return ""
    return "; ".join(change.text for change in record.changes if isinstance(change, Refused)) or "the job was refused"


def deadline_us(text: str | None, now_us: int) -> int | None:
    """Read a deadline, UTC without a zone; a date ends with its day. Raises BadInputError for one that has passed."""
    if text is None:
        return None
    moment = datetime.datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    end_us = round(zoned.timestamp() + (DAY_S if len(text) <= DATE_LENGTH else 0)) * SECOND_US
    if end_us <= now_us:
        raise BadInputError(f"objective.deadline: {text} has passed; write one to come, or fastest or cheapest")
    return end_us


def whole_paths(job: AnyJob, folder: str) -> AnyJob:
    """Make the paths of a job absolute: what is relative lies in the submitter's folder."""
    if not folder:
        return job
    if isinstance(job, RunJob):
        where = job.run.working_directory
        # With an upload it is a folder within that, wherever the nodes unpack it.
        if where is None or job.run.upload is not None:
            return job
        return replace(job, run=replace(job.run, working_directory=_in(folder, where)))
    return _whole_train(job, folder)


def _whole_train(job: Job, folder: str) -> Job:
    data = replace(job.data, files=tuple(_in(folder, path) for path in job.data.files))
    tokenizer = data.tokenizer
    if tokenizer != "bytes" and not tokenizer.startswith("train:"):
        data = replace(data, tokenizer=_in(folder, tokenizer))
    checkpoint = job.checkpoint
    return replace(
        job,
        data=data,
        checkpoint=None if checkpoint is None else replace(checkpoint, to=_in(folder, checkpoint.to)),
        initial_weights=None if job.initial_weights is None else _in(folder, job.initial_weights),
        export_to=None if job.export_to is None else _in(folder, job.export_to),
    )


def _in(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))
