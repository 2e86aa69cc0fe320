"""Handlers of events about jobs that people and the planner send."""

import difflib

from argosy.contracts.event import JobSubmitted, OptionsOffered, OptionsRefused, StopAsked
from argosy.contracts.option import Option
from argosy.control.attempts import end_waiting, stop
from argosy.control.change import JobAdded, JobAsked, JobOptions, JobsForgotten, Unreserved
from argosy.control.never import never_fits
from argosy.control.rungs import rungs_of, unknown_levels
from argosy.control.state import JobState, State
from argosy.control.work import Work

ENDED_KEPT = 10_000
ASK_AGAIN_S = 30.0
"""How long to wait before the planner is asked again whose answer was out of date."""


def job_submitted(work: Work, event: JobSubmitted) -> None:
    """Take a job into its queue, or say why not; ask the planner where no options came along."""
    problem = _queue_problem(work.state, event.claim.queue)
    if problem:
        work.refuse(event.claim.name, problem)
        work.tell(event.claim.name, f"refused: {problem}")
        return
    name = f"job-{work.state.seq}"
    _forget(work)
    work.change(JobAdded(job=name, claim=event.claim))
    if event.options:
        take_options(work, work.state.jobs[name], event.options)
    else:
        work.change(JobAsked(job=name))
        work.ask_options(name, "submitted")


def options_offered(work: Work, event: OptionsOffered) -> None:
    """Take the planner's answer; a running job keeps what it runs at."""
    job = _alive(work, event.job)
    if job is not None:
        take_options(work, job, event.options)


def options_refused(work: Work, event: OptionsRefused) -> None:
    """End a job that nothing in this fleet can run."""
    job = _alive(work, event.job)
    if job is None:
        return
    if job.attempt:
        work.refuse(job.id, "it has an attempt; the planner's refusal changes nothing")
    else:
        end_waiting(work, job, "never_fits", event.text)


def stop_asked(work: Work, event: StopAsked) -> None:
    """End a job because a person wants so."""
    job = _alive(work, event.job)
    if job is None:
        return
    text = f"by {event.by}" if event.by else ""
    if job.attempt:
        stop(work, job, "stopped", text)
    else:
        end_waiting(work, job, "stopped", text)
    work.want_pass()


def take_options(work: Work, job: JobState, options: tuple[Option, ...]) -> None:
    """Turn options into rungs; end a waiting job that none of them can ever start."""
    state = work.state
    levels = unknown_levels(options)
    if levels:
        work.refuse(job.id, f"no topology level {', '.join(levels)}")
        return
    valid = tuple(o for o in options if o.valid_until_us is None or o.valid_until_us > work.now_us)
    if options and not valid:
        work.refuse(job.id, "its options were out of date when they came")
        work.later(ASK_AGAIN_S, "options", job.id)
        return
    rungs = rungs_of(job.claim, valid, state.nodes.pools, state.nodes.pool_number, work.now_us)
    impossible = never_fits(state, job, rungs)
    if impossible and not job.attempt:
        end_waiting(work, job, "never_fits", impossible)
        return
    if rungs:
        if job.id in state.reservations:
            work.change(Unreserved(job=job.id))
        work.change(JobOptions(job=job.id, rungs=rungs))
        ends = [option.valid_until_us for option in valid if option.valid_until_us is not None]
        if ends:
            work.at(min(ends), "options", job.id)
        work.want_pass()


def _queue_problem(state: State, queue: str) -> str:
    """Say why a queue takes no jobs, empty when it does."""
    names = {item.name: item for item in state.policy.queues}
    if queue not in names:
        near = difflib.get_close_matches(queue, list(names), n=1)
        hint = f"did you mean {near[0]}?" if near else f"a job names one of {', '.join(sorted(names))} as its `queue`"
        return f"no queue {queue}; {hint}"
    children = sorted(item.name for item in names.values() if item.parent == queue)
    if children:
        return f"queue {queue} takes no jobs itself; its queues are {', '.join(children)}"
    state_of = names[queue].state
    return "" if state_of == "open" else f"queue {queue} is {state_of} and takes no new jobs"


def _alive(work: Work, name: str) -> JobState | None:
    """Find a job that has not ended, or refuse the event."""
    job = work.state.jobs.get(name)
    if job is None or job.state == "ended":
        work.refuse(name, "no such job" if job is None else f"ended already: {job.reason}")
        return None
    return job


def _forget(work: Work) -> None:
    """Drop the oldest ended jobs once there are too many."""
    ended = work.state.ended
    if len(ended) >= ENDED_KEPT * 2:
        work.change(JobsForgotten(jobs=tuple(ended[:ENDED_KEPT])))
        work.want_pass()
