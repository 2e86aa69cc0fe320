"""What queues that take turns are owed: lent chips freed for jobs that the deal left waiting, within what they own.

The pass does the same for all other queues. Jobs of the queue itself give way by rounds alone, never here. Must not
know how a queue deals what it has.
"""

from argosy.contracts.policy import TIMED_ORDERS
from argosy.control.deal import make_way, own_jobs, pinned_chips
from argosy.control.quota import Amounts
from argosy.control.reclaim import may_reclaim, reclaim
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State
from argosy.control.victims import Candidates
from argosy.control.work import Work


def take_back(work: Work, at_most: int) -> None:
    """Free nodes for waiting jobs of queues that take turns, by priority, then age; for so many jobs at most."""
    state = work.state
    timed = {
        number
        for number, queue in enumerate(state.policy.queues)
        if queue.order in TIMED_ORDERS and queue.state != "draining"
    }
    if not timed or state.policy.reclaim.at_most <= 0:
        return
    candidates = Candidates(state)
    for queue, jobs in sorted(own_jobs(state, timed).items()):
        if make_way(jobs):
            continue
        # A rung that nothing can be freed for once is not asked for again.
        hopeless = set[Rung]()
        for job in sorted(jobs, key=lambda job: (-job.claim.priority, job.number)):
            if at_most and _waits(state, job) and _take_back(work, queue, job, candidates, hopeless):
                at_most -= 1
                candidates.forget()


def _waits(state: State, job: JobState) -> bool:
    """Say whether a job may have nodes freed for it now."""
    return job.state == "waiting" and job.not_before_us <= state.now_us and may_reclaim(state, job)


def _take_back(work: Work, queue: int, job: JobState, candidates: Candidates, hopeless: set[Rung]) -> bool:
    """Free nodes for a job at its first rung that its queue owns and where that can be done."""
    state = work.state
    levels, pinned = len(state.quota.rows[queue].path), pinned_chips(state, queue)
    for rung in job.rungs:
        if rung in hopeless:
            continue
        need = _added(state.amounts_of(rung), pinned)
        depth = state.quota.depth(queue, need)
        if depth >= levels or state.quota.excess(queue, need, depth) is not None:
            continue
        plan = reclaim(work, job, rung, depth, candidates)
        if plan is not None and plan.said.code == "RECLAIMING":
            return True
        if not job.avoid:
            hopeless.add(rung)
    return False


def _added(need: Amounts, pinned: dict[int, int]) -> Amounts:
    """Add to a need what is on its way to other jobs of the queue."""
    return tuple((kind, amount + pinned.get(kind, 0)) for kind, amount in need)
