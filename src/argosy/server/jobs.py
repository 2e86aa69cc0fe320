"""How a job is handed in: read, checked, logged, and kept so that the same request twice makes one job.

Joins the reading of a job, the loop and the store; must not know HTTP, nor what becomes of a job.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from weakref import WeakValueDictionary

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.event import JobSubmitted
from argosy.contracts.job import RunJob
from argosy.server.bundles import FOLDER_NAME, Bundles
from argosy.server.intake import Handed, check_chips, refusal_of, take
from argosy.server.loop import Loop, wall_us
from argosy.server.models import Submission
from argosy.server.store import Statement, Store

KEY_LENGTH_MAX = 200
TO_PLAN_MAX = 1_000
"""So many jobs that wait for the planner keep others from being taken in."""
INSERT = (
    "INSERT INTO job (id, seq, name, owner, at_us, document, source, model_config, bundle, key, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class KeyReusedError(BadInputError):
    """An idempotency key came with another request than before."""


class Intake:
    """Takes jobs in. folder: where the service's files are; config_of: gives the checked text of a model's config.

    chips: names all that are known. to_plan: how many jobs wait for the planner. bundles: uploaded code.
    """

    def __init__(
        self,
        store: Store,
        loop: Loop,
        folder: Path,
        config_of: Callable[[str, str], str],
        *,
        chips: Callable[[], Collection[str]],
        to_plan: Callable[[], int],
    ) -> None:
        self._store, self._loop, self._chips, self._to_plan = store, loop, chips, to_plan
        self.bundles = Bundles(folder / FOLDER_NAME, store, loop)
        self._config_of = config_of
        self._keys: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def read(self, submission: Submission, owner: str, *, tried: bool = False) -> tuple[Handed, str]:
        """Read and check a job; gives it with its model's config. tried: it is not to run, so needs no uploaded code.

        Raises BadInputError.
        """
        handed = take(submission, owner, wall_us())
        job = handed.job
        check_chips(job.chips.allow, self._chips())
        if not isinstance(job, RunJob):
            return handed, self._config_of(job.model, submission.model_config_text)
        if job.run.upload is not None and not submission.bundle and not tried:
            raise BadInputError("run.upload: its files come first: PUT /v1/bundles, then name the id as `bundle`")
        if submission.bundle and job.run.upload is None:
            raise BadInputError("bundle: got one for a job that uploads nothing; write `upload: FOLDER` in the job")
        if submission.bundle and not self.bundles.name(submission.bundle):
            raise BadInputError(f"bundle: no {submission.bundle} was handed in; PUT /v1/bundles gives the id")
        return handed, ""

    async def submit(self, submission: Submission, owner: str, key: str) -> str:
        """Hand a job in; gives its id once it is on disk. key: of the request, empty for none.

        Raises BadInputError for a job that can't be taken, KeyReusedError, InfrastructureError.
        """
        if len(key) > KEY_LENGTH_MAX:
            raise BadInputError(f"Idempotency-Key: at most {KEY_LENGTH_MAX} characters, got {len(key)}")
        if not key:
            return await self._submit(submission, owner, None)
        # It is kept as long as any request waits for it.
        lock = self._keys.setdefault((owner, key), asyncio.Lock())
        async with lock:
            return self._known(submission, owner, key) or await self._submit(submission, owner, key)

    def _known(self, submission: Submission, owner: str, key: str) -> str:
        """Find the job that the same request made before."""
        rows = self._store.read("SELECT id, digest FROM job WHERE owner = ? AND key = ?", (owner, key))
        if rows and rows[0][1] != _digest(submission):
            raise KeyReusedError(f"Idempotency-Key {key!r} came with another job before ({rows[0][0]}); use a new one")
        return str(rows[0][0]) if rows else ""

    async def _submit(self, submission: Submission, owner: str, key: str | None) -> str:
        handed, config = await asyncio.to_thread(self.read, submission, owner)
        if not isinstance(handed.job, RunJob) and (count := self._to_plan()) >= TO_PLAN_MAX:
            raise InfrastructureError(f"{count:,} jobs wait for the planner, the most that may; try again later")

        def kept(seq: int, now_us: int) -> Statement:
            values = (f"job-{seq}", seq, handed.claim.name, owner, now_us, handed.kept)
            rest = (submission.document, config, submission.bundle, key, _digest(submission))
            return INSERT, (*values, *rest)

        sent = self._loop.send(
            JobSubmitted,
            along=lambda state, record: (
                [kept(record.event.seq, record.event.now_us)] if f"job-{record.event.seq}" in state.jobs else []
            ),
            claim=handed.claim,
        )
        record = await asyncio.wrap_future(sent)
        if refusal := refusal_of(record):
            raise BadInputError(refusal)
        return f"job-{record.event.seq}"


def _digest(submission: Submission) -> str:
    return hashlib.sha256(submission.model_dump_json().encode()).hexdigest()
