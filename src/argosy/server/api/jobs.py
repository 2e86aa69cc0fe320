"""Routes of jobs: hand in, list, show, explain, end."""

import asyncio
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response

from argosy.contracts.event import StopAsked
from argosy.control.state import JobState, State
from argosy.server import views
from argosy.server.api.finding import known_job, may_read, own_job
from argosy.server.api.office import Here, Office, Who, noting
from argosy.server.api.problems import RESPONSES
from argosy.server.models import DryRun, Explanation, JobDetail, JobList, JobView, Submission
from argosy.server.tokens import Holder

ROUTER = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=RESPONSES)
LIMIT_MAX = 1_000
Word = Annotated[str, Query(max_length=253)]
Stage = Literal["waiting", "reserved", "preparing", "running", "recovering", "stopping", "ended"]


@ROUTER.post("", status_code=HTTPStatus.CREATED, operation_id="submit")
async def submit(
    here: Here,
    who: Who,
    submission: Submission,
    response: Response,
    idempotency_key: Annotated[str, Header(max_length=200)] = "",
) -> JobView:
    """Hand a job in. The same Idempotency-Key with the same job gives the same job again."""
    name = await here.intake.submit(submission, who.name, idempotency_key)
    response.headers["Location"] = f"/v1/jobs/{name}"
    return await _view(here, who, name)


@ROUTER.post("/dry-run", operation_id="dry_run")
async def dry_run(here: Here, who: Who, submission: Submission) -> DryRun:
    """Say what would become of a job: its options, whether it would start, what it would stop. Nothing is kept."""
    return await here.tryout.run(submission, who.name)


@ROUTER.get("", operation_id="list_jobs")
async def list_jobs(
    here: Here,
    who: Who,
    queue: Word = "",
    owner: Word = "",
    state: Annotated[list[Stage] | None, Query(max_length=16)] = None,
    before: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 100,
) -> JobList:
    """List jobs, newest first."""
    jobs, following = await here.ask(
        lambda found: views.job_list(found, queue=queue, owner=owner, states=state or (), before=before, limit=limit)
    )
    return JobList(jobs=[_for(who, here.facts.with_progress(job)) for job in jobs], next=following)


@ROUTER.get("/{name}", operation_id="show_job")
async def show_job(here: Here, who: Who, name: str) -> JobDetail:
    """Show a job by its id, or the newest of a name: its attempts, predicted beside measured, and what was handed in.

    What was handed in is told to its owner and to administrators alone.
    """
    found = await here.facts.detail(await _view(here, who, name))
    # A document may hold secrets in its environment.
    return found if may_read(who, found.owner) else found.model_copy(update={"document": ""})


@ROUTER.get("/{name}/explain", operation_id="explain_job")
async def explain_job(here: Here, who: Who, name: str) -> Explanation:
    """Say why a job waits, and what happened to it so far. Words of its own code go to its owner and administrators."""

    def question(state: State) -> tuple[Explanation, str]:
        job = known_job(state, name, who)
        return views.explanation(state, job), job.claim.owner

    asked, owner = await here.ask(question)
    found = await here.facts.explained(asked)
    trouble = here.service.heart.offers.trouble(found.job)
    if trouble and found.state == "waiting":
        found = found.model_copy(update={"text": f"{found.text}; {trouble}"})
    if found.state == "preparing" and (refusal := here.service.front.desk.refusal(found.job)):
        found = found.model_copy(update={"text": refusal})
    if may_read(who, owner):
        return found
    story = [chapter.model_copy(update={"did": [_bare(deed) for deed in chapter.did]}) for chapter in found.story]
    return found.model_copy(update={"text": "" if found.state == "ended" else found.text, "story": story})


@ROUTER.post("/{name}/cancel", operation_id="cancel_job")
async def cancel_job(here: Here, who: Who, name: str) -> JobView:
    """End a job; one that has ended stays as it is."""
    job_id, ended = await here.ask(lambda state: _endable(own_job(state, name, who)))
    if not ended:
        along = noting(who, "cancel", job_id)
        await asyncio.wrap_future(here.service.loop.send(StopAsked, along=along, job=job_id, by=who.name))
    return await _view(here, who, job_id)


def _endable(job: JobState) -> tuple[str, bool]:
    return job.id, job.state == "ended"


async def _view(here: Office, who: Holder, name: str) -> JobView:
    def question(state: State) -> JobView:
        return views.job_view(state, known_job(state, name, who), why=True)

    return _for(who, here.facts.with_progress(await here.ask(question)))


def _for(who: Holder, job: JobView) -> JobView:
    """Leave out what may be the last words of another's code."""
    return job if may_read(who, job.owner) else job.model_copy(update={"text": ""})


def _bare(deed: str) -> str:
    """Leave out the words of what became of a job."""
    return deed.partition(": ")[0] if deed.startswith("job.") else deed
