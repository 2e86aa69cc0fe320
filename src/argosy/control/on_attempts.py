"""Handlers of events about attempts: what agents and health report; old generations are refused first."""

from argosy.contracts.event import AttemptEnded, AttemptRunning, IncidentFound, NodesReleased
from argosy.control.attempts import REQUEUED, free, spend, stop
from argosy.control.change import JobMoved
from argosy.control.on_fleet import quarantine
from argosy.control.recover import blame_nodes, gather, recover
from argosy.control.state import AttemptState, JobState
from argosy.control.work import Work

OUTCOMES = ("done", "user", "infrastructure")
USER_REMEDIES = ("fix_user_code", "fix_config")


def attempt_running(work: Work, event: AttemptRunning) -> None:
    """All ranks are at work."""
    found = _current(work, event.attempt, event.generation)
    if found is not None and found[1].state == "preparing":
        work.change(JobMoved(job=found[1].id, to="running"))


def attempt_ended(work: Work, event: AttemptEnded) -> None:
    """All ranks ended by themselves: done, the user's fault, or the machines'."""
    if event.outcome not in OUTCOMES:
        work.refuse(event.attempt, f"outcome must be one of {', '.join(OUTCOMES)}, got {event.outcome}")
        return
    if _done_in_time(work, event):
        return
    found = _current(work, event.attempt, event.generation)
    if found is None or _is_stale(work, found[1], event.evidence):
        return
    attempt, job = found
    blame_nodes(work, attempt, (), event.evidence)
    if event.outcome == "done":
        stop(work, job, "done", event.text)
    elif event.outcome == "user":
        blame_user(work, job, event.text)
    elif job.state != "recovering":
        recover(work, attempt, event.text or "ranks failed")


def _done_in_time(work: Work, event: AttemptEnded) -> bool:
    """End a job whose work was done while it was given notice to leave: it need not run again."""
    attempt = work.state.attempts.get(event.attempt)
    if attempt is None or event.outcome != "done" or event.generation != attempt.generation:
        return False
    job = work.state.jobs[attempt.job]
    under_notice = job.state == "stopping" and job.reason in REQUEUED
    if under_notice:
        stop(work, job, "done", event.text)
    return under_notice


def blame_user(work: Work, job: JobState, text: str) -> None:
    """Start a job again if its owner allows retries of his code, else end it."""
    if spend(work, job, "user"):
        stop(work, job, "retry", text)
    else:
        stop(work, job, "failed_user", text)


def incident_found(work: Work, event: IncidentFound) -> None:
    """Answer a fault that health judged, once for every piece of evidence."""
    found = _current(work, event.attempt, event.generation)
    if found is None or _is_stale(work, found[1], event.evidence):
        return
    attempt, job = found
    numbers = tuple(sorted(work.state.nodes.number[name] for name in event.nodes if name in work.state.nodes.number))
    remedy = event.incident.remedy
    if remedy in USER_REMEDIES:
        blame_nodes(work, attempt, (), event.evidence)
        blame_user(work, job, event.incident.advice)
        return
    cordons = remedy == "cordon_replace"
    blame_nodes(work, attempt, numbers if cordons else (), event.evidence)
    if cordons:
        quarantine(work, numbers, event.evidence)
        work.want_pass()
        gather(work, attempt, event.incident.fault_class)
    elif job.state != "recovering":
        recover(work, attempt, event.incident.fault_class)


def nodes_released(work: Work, event: NodesReleased) -> None:
    """Free nodes that the attempt left, if no newer generation of it came to them since."""
    nodes = work.state.nodes
    numbers = [nodes.number[name] for name in event.nodes if name in nodes.number]
    left = tuple(
        number
        for number in numbers
        if nodes.holder[number] == event.attempt
        and nodes.leaving[number]
        and event.generation >= nodes.left_generation[number]
    )
    if left:
        free(work, left)
    else:
        work.refuse(event.attempt, f"generation {event.generation} waits for none of these nodes")


def _current(work: Work, name: str, generation: int) -> tuple[AttemptState, JobState] | None:
    """Find a live attempt and its job, or refuse the event as old."""
    attempt = work.state.attempts.get(name)
    if attempt is None:
        work.refuse(name, "no such attempt now")
        return None
    job = work.state.jobs[attempt.job]
    if generation != attempt.generation or job.state == "stopping":
        work.refuse(name, f"generation {generation} is over: {job.state} at {attempt.generation}")
        return None
    return attempt, job


def _is_stale(work: Work, job: JobState, evidence: str) -> bool:
    """Refuse evidence that has acted on the job already."""
    if evidence and evidence in job.evidence:
        work.refuse(job.id, f"evidence {evidence} has acted already")
        return True
    return False
