"""The answer to "why does my job wait": what the last pass found, made into words, with who is in the way and when.

Reads the state and changes nothing.
"""

from bisect import bisect_left

import numpy as np

from argosy.contracts.pending import CODES, Blocking, WhyPending
from argosy.contracts.policy import SECOND_US
from argosy.control.lanes import QUEUE
from argosy.control.nodes import FOREVER
from argosy.control.state import Blocked, JobState, State
from argosy.control.waiting import group_key
from argosy.control.why import Judgement, judge

BLOCKERS_MAX = 5


def explain(state: State, job_id: str) -> WhyPending | None:
    """Say why a job waits; None for a job that does not."""
    job = state.jobs.get(job_id)
    if job is None or job.state not in ("waiting", "reserved"):
        return None
    noted = noted_of(state, job)
    blocked = Judgement("NEXT_PASS") if noted is None else judge(state, job, noted)
    blockers = _blockers(state, job, blocked)
    p50, p90 = _eta(state, job)
    return WhyPending(
        job=job.id,
        code=blocked.code,
        text=_text(job, blocked),
        at_us=state.now_us,
        since_us=job.since_us,
        needs=blocked.needs,
        blockers=blockers,
        ahead=_ahead(state, job),
        eta_p50_us=p50,
        eta_p90_us=p90,
        change=_change(blocked),
    )


def noted_of(state: State, job: JobState) -> Blocked | None:
    """Find what the last pass noted for a job; None if it has not looked at it."""
    # Its group may have changed since: nodes were held for it, or no longer are.
    group = group_key(state, job)
    keys = (group, (*group[:3], job.id), (*group[:3], ""))
    return next((state.why[key] for key in keys if key in state.why), None)


def _text(job: JobState, blocked: Judgement) -> str:
    """Say in a sentence what the code means here."""
    text = CODES[blocked.code]
    excess, need = blocked.excess, blocked.needs[0] if blocked.needs else None
    if blocked.code == "NO_QUOTA" and excess is not None:
        whose = f"queue {excess.queue} may hold" if excess.queue else "all queues together have"
        return (
            f"{text}: {whose} {excess.allowed} {excess.kind}, {excess.held} are held, this job asks for {excess.asked}"
        )
    if blocked.code == "BACKOFF":
        return f"{text} after {job.reason or 'a failure'}"
    if need is not None and blocked.code not in ("ORDER", "NO_OPTIONS"):
        where = f" within one {need.near}" if need.near not in ("any", "site", "node") else ""
        asked = f"{need.nodes} {need.pool} node{'' if need.nodes == 1 else 's'}"
        text = f"{text}: needs {asked}{where}; {need.free} of {need.owned} are free"
        if where:
            text += f", at most {need.largest} together ({need.domain})"
    return f"{text}; {blocked.detail}" if blocked.detail else text


def _change(blocked: Judgement) -> str:
    """Say what would start the job now, where the evidence tells."""
    for need in blocked.needs:
        if need.largest < need.nodes <= need.free:
            return f"now, if {need.option} asked for topology site instead of {need.near}"
    if blocked.code == "NO_QUOTA" and blocked.excess is not None:
        more = blocked.excess.held + blocked.excess.asked - blocked.excess.allowed
        where = f"queue {blocked.excess.queue}" if blocked.excess.queue else "the fleet"
        return f"if {where} had {more} more {blocked.excess.kind}"
    return ""


def _blockers(state: State, job: JobState, blocked: Judgement) -> tuple[Blocking, ...]:
    """List those whose nodes the job waits for: on nodes held for it, else in its pools, soonest end first."""
    if blocked.rung is None or blocked.code in ("NO_QUOTA", "ORDER", "BACKOFF", "NODES_DOWN", "NEVER_FITS"):
        return ()
    reservation = state.reservations.get(job.id)
    if reservation is not None:
        names = {state.nodes.holder[number] for number in reservation.nodes} & set(state.attempts)
    else:
        names = {name for pool, _ in blocked.rung.chips for held in state.holding[pool].values() for name in held}
    rows = sorted((state.attempts[name].ends_us, name) for name in names)
    return tuple(
        Blocking(
            job=state.attempts[name].job,
            name=state.jobs[state.attempts[name].job].claim.name,
            ends_us=None if ends_us >= FOREVER else ends_us,
        )
        for ends_us, name in rows[:BLOCKERS_MAX]
    )


def _eta(state: State, job: JobState) -> tuple[int | None, int | None]:
    """Foretell the start of a job that nodes are held for: the likely time, and that by time limits."""
    reservation = state.reservations.get(job.id)
    if reservation is None or not reservation.from_us:
        return None, None
    likely = state.now_us
    for number in reservation.nodes:
        attempt = state.attempts.get(state.nodes.holder[number])
        if attempt is not None and not state.nodes.leaving[number]:
            queue = state.jobs[attempt.job].claim.queue
            likely = max(likely, expected_end(state, queue, attempt.began_us, attempt.ends_us))
    by_limits = max(reservation.from_us, state.now_us)
    return min(likely, by_limits), by_limits


def _ahead(state: State, job: JobState) -> int:
    """Count the jobs of the same queue with better priority or age."""
    own = (-job.claim.priority, job.number, job.id)
    table, keys = state.lanes.table, state.lanes.keys
    rows = np.flatnonzero(table[:, QUEUE] == state.queue_of(job)).tolist()
    return sum(bisect_left(state.waiting[keys[row]], own) for row in rows)


def expected_end(state: State, queue: str, began_us: int, ends_us: int) -> int:
    """Foretell when an attempt ends, by how early its queue's jobs ended before their limits: the median."""
    samples = sorted(state.early.get(queue, []))
    if ends_us >= FOREVER or not samples:
        return ends_us
    middle = samples[len(samples) // 2]
    return max(state.now_us + SECOND_US, began_us + (ends_us - began_us) * middle // 1000)
