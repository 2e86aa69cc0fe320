"""What to do for a job that nothing is free for: find the reason, free nodes that it is owed, or hold some for it.

Called by the pass for the first job of each blocked group. Must not know the order of jobs.
"""

from argosy.control.quota import Excess
from argosy.control.reclaim import reclaim
from argosy.control.reserve import reserve
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State
from argosy.control.waiting import group_key
from argosy.control.why import SEVERITY, Blocked, needs_of, verdict
from argosy.control.work import Work

NEEDS_MAX = 6


__all__ = ["Blocked", "not_ready", "settle"]


def not_ready(state: State, job: JobState) -> Blocked | None:
    """Say why a job is not even looked at, None if it is."""
    if state.policy.queues[state.queue_of(job)].state == "draining":
        return Blocked("QUEUE_DRAINING", state.now_us)
    if job.not_before_us > state.now_us:
        return Blocked("BACKOFF", state.now_us)
    return Blocked("NO_OPTIONS", state.now_us) if not job.rungs else None


def settle(work: Work, job: JobState, depths: list[int], closed: set[int]) -> Blocked:
    """Find what each rung lacks, then reclaim or reserve. closed: pools that those ahead in its queue wait for."""
    state = work.state
    queue, shape = state.queue_of(job), state.shapes[state.shape_of[job.id]]
    codes: list[tuple[str, Rung, Excess | None]] = []
    for rung, need, depth in zip(shape.rungs, shape.needs, depths, strict=True):
        excess = state.quota.excess(queue, need, depth)
        if closed and any(pool in closed for pool, _ in rung.chips):
            codes.append(("ORDER", rung, None))
        elif excess is not None:
            codes.append(("NO_QUOTA", rung, excess))
        else:
            codes.append((verdict(state, job, rung) or "NO_CAPACITY", rung, None))
    code, rung, excess = min(codes, key=lambda item: SEVERITY.index(item[0]))
    open_rungs = [item[1] for item in codes if item[0] not in ("ORDER", "NO_QUOTA", "NEVER_FITS")]
    code, detail = _free_or_hold(work, job, code, rung, open_rungs)
    shown = [rung, *(other for _, other, _ in codes if other is not rung)][:NEEDS_MAX]
    needs = tuple(need for item in shown for need in needs_of(state, item))
    blocked = Blocked(code, state.now_us, rung, needs, excess, detail)
    # With nodes held for it a job stands alone, no longer in the group that the pass looks at.
    state.why[group_key(state, job)] = blocked
    return blocked


def _free_or_hold(work: Work, job: JobState, code: str, rung: Rung, open_rungs: list[Rung]) -> tuple[str, str]:
    """Reclaim for a job, else reserve for it; give the code that says so and a detail."""
    reservation = work.state.reservations.get(job.id)
    if reservation is not None and reservation.expires_us:
        return "RECLAIMING", ""
    if not open_rungs:
        return code, ""
    freed, detail = reclaim(work, job, open_rungs)
    if freed != "RECLAIMING":
        reserve(work, job, rung)
    return freed or code, detail
