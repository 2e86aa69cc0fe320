"""What to do for a job that nothing is free for: find the reason, free nodes that it is owed, or hold some for it.

Called by the pass for the first job of each blocked group. Must not know the order of jobs.
"""

from argosy.control.change import Unreserved
from argosy.control.reclaim import reclaim
from argosy.control.reserve import reserve
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State
from argosy.control.why import SEVERITY, Blocked, needs_of, verdict
from argosy.control.work import Work

NEEDS_MAX = 6
CLOSED = ("ORDER", "NO_QUOTA", "NEVER_FITS")


__all__ = ["Blocked", "not_ready", "settle"]


def not_ready(work: Work, job: JobState) -> Blocked | None:
    """Say why a job is not even looked at, None if it is; meanwhile it holds nothing."""
    blocked = _not_ready(work.state, job)
    if blocked is not None and job.id in work.state.reservations:
        work.change(Unreserved(job=job.id))
    return blocked


def _not_ready(state: State, job: JobState) -> Blocked | None:
    if state.policy.queues[state.queue_of(job)].state == "draining":
        return Blocked("QUEUE_DRAINING", state.now_us)
    if job.not_before_us > state.now_us:
        return Blocked("BACKOFF", state.now_us)
    return Blocked("NO_OPTIONS", state.now_us) if not job.rungs else None


def settle(work: Work, job: JobState, depths: list[int], closed: set[int]) -> Blocked:
    """Find what each rung lacks, then reclaim or reserve. closed: pools that those ahead in its queue wait for."""
    state = work.state
    queue, shape = state.queue_of(job), state.shapes[state.shape_of[job.id]]
    found: list[Blocked] = []
    for rung, need, depth in zip(shape.rungs, shape.needs, depths, strict=True):
        excess = state.quota.excess(queue, need, depth)
        if closed and any(pool in closed for pool, _ in rung.chips):
            code = "ORDER"
        elif excess is not None:
            code = "NO_QUOTA"
        else:
            code = verdict(state, job, rung) or "NO_CAPACITY"
        found.append(Blocked(code, state.now_us, rung, excess=excess))
    best = min(found, key=lambda item: SEVERITY.index(item.code))
    _free_or_hold(work, job, best, [item.rung for item in found if item.rung and item.code not in CLOSED])
    shown = [best, *(item for item in found if item is not best)][:NEEDS_MAX]
    best.needs = tuple(need for item in shown if item.rung for need in needs_of(state, item.rung))
    return best


def _free_or_hold(work: Work, job: JobState, best: Blocked, open_rungs: list[Rung]) -> None:
    """Reclaim for a job, else reserve for it, and note what came of it."""
    reservation = work.state.reservations.get(job.id)
    if not open_rungs:
        # A job that may not start must not keep nodes from those it waits for.
        if reservation is not None:
            work.change(Unreserved(job=job.id))
        return
    if reservation is not None and reservation.expires_us:
        best.code = "RECLAIMING"
        return
    freed, best.detail = reclaim(work, job, open_rungs)
    best.code = freed or best.code
    if freed != "RECLAIMING" and best.rung is not None:
        reserve(work, job, best.rung)
