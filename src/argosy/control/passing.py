"""The pass: one order over all waiting jobs, and for each group a start, a reclaim, a hold, or the reason it waits.

Runs on PassDue. At most STARTS_MAX jobs start in one pass; then another is asked for. Must not know how nodes are
found, held or freed.
"""

from dataclasses import replace

from argosy.control.attempts import start
from argosy.control.grow import grow
from argosy.control.order import Lane, Order
from argosy.control.place import Room, end_of, find_parts
from argosy.control.settle import Helper, not_ready
from argosy.control.spares import keep_spares
from argosy.control.state import BLOCKED, JobState, State
from argosy.control.work import Work

STARTS_MAX = 500


class Pass:
    """What one pass remembers while it runs. closed: for each strict queue, the pools that a blocked job waits for."""

    def __init__(self, work: Work) -> None:
        self.work, self.state = work, work.state
        self.closed: dict[int, frozenset[int]] = {}
        self.draining = [queue.state == "draining" for queue in work.state.policy.queues]
        self.strict = [queue.order == "strict" for queue in work.state.policy.queues]
        self.room = Room(work.state)
        self.helper = Helper(work, self.room)
        self.order = Order(work.state, self.helper.known)
        self.starts = 0


def run_pass(work: Work) -> None:
    """Start what can start, free what is owed, hold what must be held, and say of everything else why it waits."""
    count_capacity(work.state)
    keep_spares(work)
    work.state.why = {}
    work.state.arrived.clear()
    run = Pass(work)
    for lane in run.order:
        if run.starts >= STARTS_MAX:
            # What is said of the rest is judged when asked: it waits for nodes or quota, or for the next pass.
            work.want_pass()
            work.state.why.update(dict.fromkeys((g for g in work.state.waiting if g not in work.state.why), BLOCKED))
            break
        _look_at(run, lane)
    run.helper.finish()
    grow(work, run.order.wanted)


def count_capacity(state: State) -> None:
    """Count chips in ready nodes by kind, which the sum of all queues may not exceed."""
    capacity = [0] * len(state.quota.kinds)
    for number, pool in enumerate(state.nodes.pools):
        capacity[state.kind_of_pool(number)] += state.nodes.ready_count[number] * pool.chips_per_node
    state.quota.capacity = capacity


def _look_at(run: Pass, lane: Lane) -> None:
    """Start the first job of a group, try it with more borrowing later, or find it blocked."""
    state, group = run.state, lane.group
    job = state.jobs[state.waiting[group][0][2]]
    # Only jobs that stand alone have a retry to wait for, nodes to avoid, or nodes held for them.
    if (group[1] < 0 or group[3] or run.draining[lane.queue]) and not_ready(run.work, job):
        state.why[group] = BLOCKED
        return
    shape, end_us = state.shapes[group[1]], end_of(state, job)
    fits = [index for index, parts in enumerate(shape.parts) if group[3] or run.room.maybe(parts, end_us)]
    if fits and run.order.refresh(lane):
        run.order.deeper(lane, lane.tier)
        return
    if fits and _start(run, lane, job, fits):
        run.starts += 1
        run.order.used(lane.queue)
        run.order.again(lane)
        return
    deeper = [depth for index in fits if (depth := lane.depths[index]) > lane.tier and lane.allowed[index]]
    if deeper:
        run.order.deeper(lane, min(deeper))
        return
    run.order.wanted.update(pool for index in fits for pool, _, _ in shape.parts[index] if lane.allowed[index])
    closed = run.closed.get(lane.queue, frozenset())
    noted = run.helper.help(lane, job, closed)
    if run.helper.exhausted():
        run.order.drop_hopeless()
    state.why[group] = replace(noted, closed=closed) if closed else noted
    if run.strict[lane.queue]:
        pools = {pool for rung in shape.rungs for pool, _ in rung.chips}
        run.closed[lane.queue] = closed | pools


def _start(run: Pass, lane: Lane, job: JobState, fits: list[int]) -> bool:
    """Start a job at the best rung that its tier, its quota and free nodes allow."""
    state, shape = run.state, run.state.shapes[lane.group[1]]
    closed = run.closed.get(lane.queue)
    for index in fits:
        parts = shape.parts[index]
        if lane.depths[index] > lane.tier or not lane.allowed[index]:
            continue
        if closed and any(pool in closed for pool, _, _ in parts):
            continue
        if state.quota.excess(lane.queue, shape.needs[index], lane.depths[index]) is not None:
            continue
        nodes = find_parts(state, job, shape.rungs[index])
        if nodes is None:
            if not lane.group[3]:
                run.room.lacked(parts, end_of(state, job))
            continue
        start(run.work, job, shape.rungs[index], nodes)
        run.room.changed(parts)
        run.helper.outlook.changed(pool for pool, _, _ in parts)
        return True
    return False
