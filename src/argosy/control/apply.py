"""Applying changes: the only code that moves the state, one small function a change, found through a table.

Nothing here decides; a change that the state cannot take is an error, since it means a bug or a broken log.
"""

from bisect import insort
from collections.abc import Callable
from typing import Any

from argosy.contracts.policy import NORMALISED
from argosy.control import change as ch
from argosy.control.decay import faded
from argosy.control.quota import QuotaTree
from argosy.control.shapes import Shapes
from argosy.control.state import AttemptState, JobState, QueueUse, Reservation, State
from argosy.control.transitions import check_job, illegal
from argosy.control.waiting import enter, leave, set_shape

HOLDING = ("preparing", "running", "recovering", "stopping")
TURNS = ("round", "moved")
EARLY_SAMPLES = 32
PERMILLE = 1000


def apply(state: State, change: ch.Change) -> None:
    """Make one change to the state."""
    TABLE[type(change)](state, change)


def rebuild(state: State) -> None:
    """Work out the quota tree, shapes and groups anew, after policy or pools changed or a snapshot was read."""
    kinds = tuple(sorted({pool.kind for pool in state.nodes.pools} | _named_kinds(state)))
    state.quota = QuotaTree(state.policy, kinds)
    state.shapes, state.waiting = Shapes(), {}
    state.lanes.clear()
    # What was noted of groups names them by queues and shapes that are numbered anew.
    state.shape_of, state.why = {}, {}
    state.holding, state.amounts = [{} for _ in state.nodes.pools], {}
    for attempt in state.attempts.values():
        job = state.jobs[attempt.job]
        attempt.amounts = state.amounts_of(attempt.rung)
        queue = state.queue_of(job)
        state.quota.change(queue, attempt.amounts, 1)
        for pool, _ in attempt.rung.chips:
            state.holding[pool].setdefault(queue, set()).add(attempt.id)
    for job in state.jobs.values():
        if job.rungs and job.state != "ended":
            set_shape(state, job)
        if job.state in ("waiting", "reserved"):
            enter(state, job)


def _named_kinds(state: State) -> set[str]:
    """List the chip kinds that the policy names in guarantees, whether such chips exist or not."""
    return {kind for queue in state.policy.queues for kind in queue.guarantee} - {NORMALISED}


def _term(state: State, change: ch.TermSet) -> None:
    state.term = change.term


def _policy(state: State, change: ch.PolicySet) -> None:
    for queue in list(state.use):
        _age_use(state, queue)
    before_us, lease_us = state.us(state.policy.lease_s), state.us(change.policy.lease_s)
    if lease_us < before_us and len(state.nodes):
        # Nodes keep the lease that they hold, and answers on their way still give the longer one.
        state.leased_us = max(state.leased_us, state.now_us + before_us + lease_us)
    state.policy = change.policy
    rebuild(state)


def _pool_added(state: State, change: ch.PoolAdded) -> None:
    state.nodes.add_pool(change.pool)
    rebuild(state)


def _node_added(state: State, change: ch.NodeAdded) -> None:
    state.nodes.add_node(change.node)


def _node_retired(state: State, change: ch.NodeRetired) -> None:
    state.nodes.retire(change.node)


def _node_observed(state: State, change: ch.NodeObserved) -> None:
    state.nodes.observed[change.node] = change.observed
    state.nodes.lease_us[change.node] = change.lease_us
    state.nodes.refresh(change.node)


def _node_intended(state: State, change: ch.NodeIntended) -> None:
    state.nodes.intent[change.node] = change.intent
    state.nodes.empty_by_us[change.node] = change.empty_by_us
    state.nodes.refresh(change.node)


def _node_trusted(state: State, change: ch.NodeTrusted) -> None:
    if change.trust == "quarantined" and state.nodes.trust[change.node] == "ok":
        state.nodes.faults[change.node] += 1
    if change.counted:
        state.cordons = [at_us for at_us in state.cordons if at_us > state.now_us - _window_us(state)]
        state.cordons.append(state.now_us)
    state.nodes.trust[change.node] = change.trust
    state.nodes.refresh(change.node)


def _window_us(state: State) -> int:
    return round(state.policy.breaker.window_s * 1e6)


def _nodes_left(state: State, change: ch.NodesLeft) -> None:
    for number in change.nodes:
        if not state.nodes.holder[number]:
            raise illegal(f"node {state.nodes.name[number]} is left by nobody")
        attempt = state.attempts.get(state.nodes.holder[number])
        state.nodes.leaving[number] = True
        state.nodes.left_generation[number] = attempt.generation if attempt else 0
        state.nodes.leave_by_us[number] = change.by_us


def _nodes_freed(state: State, change: ch.NodesFreed) -> None:
    state.nodes.let_go(change.nodes)


def _spares(state: State, change: ch.SparesSet) -> None:
    for number in change.nodes:
        state.nodes.spare[number] = change.spare
        state.nodes.refresh(number)


def _windows(state: State, change: ch.WindowsTurned) -> None:
    for number, until_us in zip(change.nodes, change.until_us, strict=True):
        state.nodes.until_us[number] = until_us
        state.nodes.refresh(number)


def _job_added(state: State, change: ch.JobAdded) -> None:
    job = JobState(id=change.job, number=state.seq, claim=change.claim)
    job.submitted_us = job.since_us = job.not_before_us = state.now_us
    state.jobs[job.id] = job
    enter(state, job)


def _job_options(state: State, change: ch.JobOptions) -> None:
    job = state.jobs[change.job]
    waits = job.state in ("waiting", "reserved")
    if waits:
        leave(state, job)
    job.rungs, job.asked = change.rungs, False
    set_shape(state, job)
    if waits:
        enter(state, job)


def _job_asked(state: State, change: ch.JobAsked) -> None:
    state.jobs[change.job].asked = True


def _job_moved(state: State, change: ch.JobMoved) -> None:
    job = state.jobs[change.job]
    check_job(job.state, change.to, job.id)
    waited, waits = job.state in ("waiting", "reserved"), change.to in ("waiting", "reserved")
    if waited and not waits:
        leave(state, job)
    if change.to == "stopping" and change.reason in ("preempted", "maintenance", "drained"):
        job.evicted_us = state.now_us
        job.evictions += change.reason == "preempted"
    if job.state == "running" and change.to != "running":
        job.done_tokens, job.ran_us, job.pace = job.done_by(state.now_us), 0, 0.0
    elif change.to == "running" and job.state != "running":
        attempt = state.attempts[job.attempt]
        job.ran_us, job.pace, attempt.up = state.now_us, attempt.rung.rate, True
    job.exchanges += change.to == "stopping" and change.reason == "round"
    job.state, job.reason, job.text = change.to, change.reason, change.text
    if waits and not waited:
        job.since_us = state.now_us
        enter(state, job)
    if change.to == "ended":
        job.ended_us = state.now_us
        state.shape_of.pop(job.id, None)
        state.ended.append(job.id)


def _job_spent(state: State, change: ch.JobSpent) -> None:
    job = state.jobs[change.job]
    waits = job.state in ("waiting", "reserved")
    if waits:
        leave(state, job)
    job.spent[change.blame] = job.spent.get(change.blame, 0) + 1
    job.not_before_us = max(job.not_before_us, change.not_before_us)
    if waits:
        enter(state, job)


def _job_told(state: State, change: ch.JobTold) -> None:
    job = state.jobs[change.job]
    waits = job.state in ("waiting", "reserved")
    if waits:
        leave(state, job)
    if change.evidence:
        job.evidence = (*job.evidence, change.evidence)[-ch.EVIDENCE_KEPT :]
    job.avoid = tuple(sorted({*job.avoid, *change.avoid}))
    if waits:
        enter(state, job)


def _job_reclaimed(state: State, change: ch.JobReclaimed) -> None:
    state.jobs[change.job].reclaimed_us = state.now_us


def _attempt_began(state: State, change: ch.AttemptBegan) -> None:
    job = state.jobs[change.job]
    attempt = AttemptState(
        id=change.attempt,
        job=job.id,
        rung=change.rung,
        nodes=change.nodes,
        began_us=state.now_us,
        began_seq=state.seq,
        ends_us=change.ends_us,
    )
    job.attempt, job.attempts = attempt.id, job.attempts + 1
    state.attempts[attempt.id] = attempt
    _take(state, attempt, attempt.all_nodes())
    _count(state, attempt, 1)


def _attempt_regrouped(state: State, change: ch.AttemptRegrouped) -> None:
    attempt = state.attempts[change.attempt]
    if change.generation != attempt.generation + 1:
        raise illegal(f"generation {change.generation} of {attempt.id} does not follow {attempt.generation}")
    _count(state, attempt, -1)
    before = set(attempt.all_nodes())
    attempt.generation, attempt.rung, attempt.nodes = change.generation, change.rung, change.nodes
    attempt.regrouped_us, attempt.up = state.now_us, False
    _take(state, attempt, [number for number in attempt.all_nodes() if number not in before])
    _count(state, attempt, 1)


def _take(state: State, attempt: AttemptState, numbers: list[int] | tuple[int, ...]) -> None:
    """Give nodes to an attempt; what was a spare stops being one."""
    for number in numbers:
        if not state.nodes.is_free(number):
            raise illegal(f"node {state.nodes.name[number]} is not free for {attempt.id}")
        state.nodes.spare[number] = False
    state.nodes.hold(numbers, attempt.id)


def _count(state: State, attempt: AttemptState, sign: int) -> None:
    """Count an attempt's chips in the quotas, and its queue's use up to now."""
    queue = state.queue_of(state.jobs[attempt.job])
    for place in state.quota.rows[queue].path:
        _age_use(state, state.quota.rows[place].name)
    if sign > 0:
        attempt.amounts = state.amounts_of(attempt.rung)
    state.quota.change(queue, attempt.amounts, sign)
    for pool, _ in attempt.rung.chips:
        held = state.holding[pool].setdefault(queue, set())
        (held.add if sign > 0 else held.discard)(attempt.id)


def _age_use(state: State, queue: str) -> None:
    """Bring a queue's past use up to now."""
    use = state.use.setdefault(queue, QueueUse(0, state.now_us))
    if use.at_us == state.now_us:
        return
    row = state.quota.number.get(queue)
    rate = 0 if row is None else state.quota.rows[row].held[-1]
    use.use = faded(use.use, rate, state.now_us - use.at_us, state.half_life_us())
    use.at_us = state.now_us


def _attempt_gone(state: State, change: ch.AttemptGone) -> None:
    attempt = state.attempts[change.attempt]
    _count(state, attempt, -1)
    job = state.jobs[attempt.job]
    job.attempt = ""
    if job.reason in TURNS:
        job.turns_us += state.now_us - attempt.began_us
    if attempt.began_us < attempt.ends_us and attempt.has_end:
        ratio = (state.now_us - attempt.began_us) * PERMILLE // (attempt.ends_us - attempt.began_us)
        samples = [*state.early.get(job.claim.queue, []), min(PERMILLE, ratio)]
        state.early[job.claim.queue] = samples[-EARLY_SAMPLES:]
    del state.attempts[attempt.id]


def _reserved(state: State, change: ch.Reserved) -> None:
    _unreserve(state, change.job)
    job = state.jobs[change.job]
    leave(state, job)
    check_job(job.state, "reserved", job.id)
    job.state = "reserved"
    state.reservations[job.id] = Reservation(
        job=job.id,
        rung=change.rung,
        nodes=change.nodes,
        from_us=change.from_us,
        pinned=change.pinned,
        expires_us=change.expires_us,
    )
    enter(state, job, arrives=False)
    state.nodes.set_lock(change.nodes, job.id, 0 if change.pinned else change.from_us)


def _unreserved(state: State, change: ch.Unreserved) -> None:
    _unreserve(state, change.job)


def _unreserve(state: State, job_id: str) -> None:
    if job_id not in state.reservations:
        return
    job = state.jobs[job_id]
    leave(state, job)
    check_job(job.state, "waiting", job.id)
    job.state = "waiting"
    reservation = state.reservations.pop(job_id)
    state.nodes.set_lock([n for n in reservation.nodes if state.nodes.lock[n] == job_id], "", 0)
    enter(state, job)


def _timer_set(state: State, change: ch.TimerSet) -> None:
    insort(state.timers, (change.at_us, change.purpose, change.about))


def _round_began(state: State, change: ch.RoundBegan) -> None:
    state.rounds[change.queue] = change.ends_us


def _timers_done(state: State, change: ch.TimersDone) -> None:
    state.timers = [timer for timer in state.timers if timer[0] > change.up_to_us]


def _forgotten(state: State, change: ch.JobsForgotten) -> None:
    for job in change.jobs:
        del state.jobs[job]
    gone = set(change.jobs)
    state.ended = [job for job in state.ended if job not in gone]
    # Shapes that only they had go with them.
    rebuild(state)


def _refused(_state: State, _change: ch.Refused) -> None:
    """Nothing moves."""


TABLE: dict[type, Callable[[State, Any], None]] = {
    ch.TermSet: _term,
    ch.PolicySet: _policy,
    ch.PoolAdded: _pool_added,
    ch.NodeAdded: _node_added,
    ch.NodeRetired: _node_retired,
    ch.NodeObserved: _node_observed,
    ch.NodeIntended: _node_intended,
    ch.NodeTrusted: _node_trusted,
    ch.NodesLeft: _nodes_left,
    ch.NodesFreed: _nodes_freed,
    ch.SparesSet: _spares,
    ch.WindowsTurned: _windows,
    ch.JobAdded: _job_added,
    ch.JobOptions: _job_options,
    ch.JobAsked: _job_asked,
    ch.JobMoved: _job_moved,
    ch.JobSpent: _job_spent,
    ch.JobTold: _job_told,
    ch.JobReclaimed: _job_reclaimed,
    ch.AttemptBegan: _attempt_began,
    ch.AttemptRegrouped: _attempt_regrouped,
    ch.AttemptGone: _attempt_gone,
    ch.Reserved: _reserved,
    ch.Unreserved: _unreserved,
    ch.TimerSet: _timer_set,
    ch.RoundBegan: _round_began,
    ch.TimersDone: _timers_done,
    ch.JobsForgotten: _forgotten,
    ch.Refused: _refused,
}
