"""Starting, regrouping and stopping attempts: the few moves that every decision is made of.

Must not know why: passes, recovery and people's wishes all come down to these.
"""

from collections.abc import Iterable

from argosy.contracts.policy import SECOND_US
from argosy.control.chance import chance
from argosy.control.change import (
    AttemptBegan,
    AttemptGone,
    AttemptRegrouped,
    JobMoved,
    JobSpent,
    NodesFreed,
    NodesLeft,
    Unreserved,
)
from argosy.control.nodes import FOREVER
from argosy.control.rungs import Rung
from argosy.control.state import LOST_NODES, AttemptState, JobState
from argosy.control.work import Work

# What a job becomes when the last of its nodes is free: back in its queue, or ended so.
REQUEUED = frozenset({"round", "moved", "preempted", "maintenance", "drained", LOST_NODES, "retry"})
BACKOFF_DOUBLINGS_MAX = 30

Parts = tuple[tuple[int, ...], ...]


def start(work: Work, job: JobState, rung: Rung, parts: Parts) -> None:
    """Give a waiting job nodes and launch its next attempt."""
    if job.id in work.state.reservations:
        work.change(Unreserved(job=job.id))
    limit_us = job.claim.time_limit_us
    ends_us = FOREVER if limit_us is None else work.now_us + max(1, limit_us - job.turns_us)
    name = f"{job.id}.{job.attempts + 1}"
    work.change(AttemptBegan(attempt=name, job=job.id, rung=rung, nodes=parts, ends_us=ends_us))
    work.change(JobMoved(job=job.id, to="preparing"))
    work.launch(work.state.attempts[name])
    work.later(work.state.policy.prepare_s, "prepare", f"{name}:1")
    if limit_us is not None:
        work.at(ends_us, "limit", name)


def regroup(work: Work, attempt: AttemptState, rung: Rung, parts: Parts, reason: str) -> None:
    """Run the next generation of an attempt on other nodes; it leaves those that are no longer among them."""
    kept = {number for part in parts for number in part}
    leave(work, attempt, [number for number in attempt.all_nodes() if number not in kept], reason, work.now_us)
    generation = attempt.generation + 1
    work.change(AttemptRegrouped(attempt=attempt.id, generation=generation, rung=rung, nodes=parts))
    work.change(JobMoved(job=attempt.job, to="preparing", reason=reason))
    work.launch(attempt)
    work.later(work.state.policy.prepare_s, "prepare", f"{attempt.id}:{generation}")


def leave(work: Work, attempt: AttemptState, numbers: Iterable[int], reason: str, by_us: int) -> None:
    """Have an attempt leave nodes; those that do not answer and have parked their ranks are free at once."""
    nodes = work.state.nodes
    # A retired node may have been left, and freed, before its place was filled.
    fresh = tuple(n for n in numbers if nodes.holder[n] == attempt.id and not nodes.leaving[n])
    if not fresh:
        return
    work.stop(attempt, fresh, reason, by_us)
    work.change(NodesLeft(nodes=fresh, by_us=by_us))
    parked = tuple(n for n in fresh if nodes.observed[n] == "down" and nodes.lease_us[n] <= work.now_us)
    if parked:
        work.change(NodesFreed(nodes=parked))


def stop(work: Work, job: JobState, reason: str, text: str = "", notice_us: int = 0) -> None:
    """End a job's attempt: tell its nodes, and wait until they are all free. reason: of REQUEUED, else its ending.

    One that stops already to wait again ends instead if an ending comes, and then at once.
    """
    attempt = work.state.attempts[job.attempt]
    if job.state != "stopping":
        work.change(JobMoved(job=job.id, to="stopping", reason=reason, text=text))
        leave(work, attempt, attempt.all_nodes(), reason, work.now_us + notice_us)
        finish_stop(work, job)
    elif job.reason in REQUEUED and reason not in REQUEUED:
        work.change(JobMoved(job=job.id, to="stopping", reason=reason, text=text))
        _hurry(work, attempt, reason)


def _hurry(work: Work, attempt: AttemptState, reason: str) -> None:
    """Have an attempt that was given notice leave now."""
    nodes = work.state.nodes
    late = tuple(n for n in attempt.all_nodes() if nodes.holder[n] == attempt.id and nodes.leave_by_us[n] > work.now_us)
    if late:
        work.stop(attempt, late, reason, work.now_us)
        work.change(NodesLeft(nodes=late, by_us=work.now_us))


def finish_stop(work: Work, job: JobState) -> None:
    """Close a stopping attempt once it holds no node: the job goes back to its queue, or ends."""
    attempt = work.state.attempts[job.attempt]
    if any(work.state.nodes.holder[number] == attempt.id for number in attempt.all_nodes()):
        return
    work.change(AttemptGone(attempt=attempt.id))
    if job.reason in REQUEUED:
        work.change(JobMoved(job=job.id, to="waiting", reason=job.reason, text=job.text))
        if job.not_before_us > work.now_us:
            work.at(job.not_before_us, "backoff", job.id)
    else:
        work.change(JobMoved(job=job.id, to="ended", reason=job.reason, text=job.text))
        work.tell(job.id, f"ended: {job.reason}" + (f", {job.text}" if job.text else ""))
    work.want_pass()


def free(work: Work, numbers: tuple[int, ...]) -> None:
    """Free nodes that surely run nothing, and close the attempts that waited for them."""
    state = work.state
    holders = sorted({state.nodes.holder[number] for number in numbers} & set(state.attempts))
    work.change(NodesFreed(nodes=numbers))
    for name in holders:
        job = state.jobs[state.attempts[name].job]
        if job.state == "stopping" and job.attempt == name:
            finish_stop(work, job)
    work.want_pass()


def end_waiting(work: Work, job: JobState, reason: str, text: str) -> None:
    """End a job that holds no nodes."""
    if job.id in work.state.reservations:
        work.change(Unreserved(job=job.id))
    work.change(JobMoved(job=job.id, to="ended", reason=reason, text=text))
    work.tell(job.id, f"ended: {reason}, {text}")


def spend(work: Work, job: JobState, blame: str) -> bool:
    """Use up one retry, with its back-off; False when there is none left."""
    retries = work.state.policy.retries
    allowed = {"user": retries.user, "infrastructure": retries.infrastructure, "preemption": retries.preemption}
    if job.claim.user_retries is not None:
        allowed["user"] = job.claim.user_retries
    before = job.spent.get(blame, 0)
    if before >= allowed[blame]:
        return False
    delay_us = 0
    if before and blame != "preemption":
        doubled_s = retries.backoff_s * 2.0 ** min(before - 1, BACKOFF_DOUBLINGS_MAX)
        delay_us = round(min(doubled_s, retries.backoff_at_most_s) * SECOND_US)
        delay_us += chance(work.state.seed, work.state.seq, f"backoff {job.id}", delay_us // 4)
    work.change(JobSpent(job=job.id, blame=blame, not_before_us=work.now_us + delay_us if delay_us else 0))
    return True
