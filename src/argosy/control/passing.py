"""The pass: one order over all waiting jobs, and for each group a start, a reclaim, a hold, or the reason it waits.

Runs on PassDue. At most STARTS_MAX jobs start in one pass; then another is asked for. Must not know how nodes are
found, held or freed.
"""

from argosy.control.attempts import start
from argosy.control.grow import grow
from argosy.control.order import Lane, Order
from argosy.control.place import find_parts
from argosy.control.settle import Blocked, not_ready, settle
from argosy.control.spares import keep_spares
from argosy.control.state import GroupKey, JobState, State
from argosy.control.work import Work

STARTS_MAX = 4_000


class Pass:
    """What one pass remembers while it runs. closed: for each strict queue, the pools that a blocked job waits for."""

    def __init__(self, work: Work) -> None:
        self.work, self.state = work, work.state
        self.closed: dict[int, set[int]] = {}
        self.starts = 0
        self.order = Order(work.state)


def run_pass(work: Work) -> None:
    """Start what can start, free what is owed, hold what must be held, and say of everything else why it waits."""
    count_capacity(work.state)
    keep_spares(work)
    work.state.why = {}
    run = Pass(work)
    for lane, group, job in run.order:
        if run.starts >= STARTS_MAX:
            work.want_pass()
            break
        _look_at(run, lane, group, job)
    grow(work)


def count_capacity(state: State) -> None:
    """Count chips in ready nodes by kind, which the sum of all queues may not exceed."""
    capacity = [0] * len(state.quota.kinds)
    for number, pool in enumerate(state.nodes.pools):
        capacity[state.kind_of_pool(number)] += state.nodes.ready_count[number] * pool.chips_per_node
    state.quota.capacity = capacity


def _look_at(run: Pass, lane: Lane, group: GroupKey, job: JobState) -> None:
    """Start the first job of a group, try it with more borrowing later, or find it blocked."""
    state = run.state
    early = not_ready(run.work, job)
    if early is not None:
        _block(run, lane, group, early)
        return
    shape = state.shapes[state.shape_of[job.id]]
    depths = [state.quota.depth(lane.queue, need) for need in shape.needs]
    for rung, need, depth in zip(shape.rungs, shape.needs, depths, strict=True):
        if (
            depth <= lane.tier
            and not _closed(run, lane.queue, rung.chips)
            and not state.quota.excess(lane.queue, need, depth)
        ):
            parts = find_parts(state, job, rung)
            if parts is not None:
                start(run.work, job, rung, parts)
                run.starts += 1
                lane.tier = 0 if len(lane.groups) > 1 else lane.tier
                return
    if max(depths) > lane.tier:
        lane.tier = min(depth for depth in depths if depth > lane.tier)
        return
    closed = run.closed.get(lane.queue, set())
    _block(run, lane, group, settle(run.work, job, depths, closed))


def _closed(run: Pass, queue: int, chips: tuple[tuple[int, int], ...]) -> bool:
    """Say whether a job ahead in a strict queue waits for one of these pools."""
    closed = run.closed.get(queue)
    return closed is not None and any(pool in closed for pool, _ in chips)


def _block(run: Pass, lane: Lane, group: GroupKey, blocked: Blocked) -> None:
    """Note why a group waits, and close its pools to those behind it where the queue is strict."""
    state = run.state
    state.why[group] = blocked
    run.order.blocked(lane, group)
    strict = state.policy.queues[lane.queue].order == "strict"
    if strict and blocked.code not in ("QUEUE_DRAINING", "BACKOFF", "NO_OPTIONS", "NEVER_FITS", "ORDER"):
        pools = {pool for rung in state.shapes[group[1]].rungs for pool, _ in rung.chips}
        run.closed.setdefault(lane.queue, set()).update(pools)
