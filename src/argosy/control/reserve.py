"""Holding nodes for blocked gangs, so that small jobs do not starve them: who ends when, which domain is free first.

Jobs behind may still use held nodes if their time limit ends before the gang can start (backfill). Must not evict.
"""

import numpy as np
import numpy.typing as npt

from argosy.contracts.policy import SECOND_US
from argosy.control.change import Reserved, Unreserved
from argosy.control.nodes import FOREVER
from argosy.control.place import end_of
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import JobState, State
from argosy.control.work import Work

LEAVING_US = 30 * SECOND_US
"""What a node that is being left is reckoned to take."""

Array = npt.NDArray[np.int64]


def reserve(work: Work, job: JobState, rung: Rung) -> bool:
    """Hold nodes for a blocked gang, unless it has its hold already; False when it is too early to hold any."""
    state = work.state
    standing = state.reservations.get(job.id)
    if standing is not None and (standing.pinned or still_good(state, job)):
        return True
    chosen = _choose(state, job, rung)
    if chosen is None:
        if standing is not None:
            give_up(work, job)
        return True
    from_us, numbers = chosen
    if from_us >= FOREVER and state.now_us - job.since_us < state.us(state.policy.hold_after_s):
        return False
    # Nobody can promise to end before an unknown time, so nobody may use the nodes meanwhile.
    known_us = 0 if from_us >= FOREVER else from_us
    work.change(Reserved(job=job.id, rung=rung, nodes=numbers, from_us=known_us))
    return True


def give_up(work: Work, job: JobState) -> None:
    """Stop holding nodes for a job; whoever was looked at before may start on them in the next pass."""
    work.change(Unreserved(job=job.id))
    work.want_pass()


def still_good(state: State, job: JobState) -> bool:
    """Say whether every node held for a job can still be had, and its rung is still one of the job's."""
    reservation = state.reservations[job.id]
    nodes = state.nodes
    return reservation.rung in job.rungs and all(
        nodes.ready[number] and nodes.lock[number] == job.id and number not in job.avoid for number in reservation.nodes
    )


def _choose(state: State, job: JobState, rung: Rung) -> tuple[int, tuple[int, ...]] | None:
    """Find the domain for every part that is free first."""
    numbers: list[int] = []
    from_us = state.now_us
    for part in rung.parts:
        found = _soonest(state, job, part, numbers)
        if found is None:
            return None
        from_us = max(from_us, found[0])
        numbers += found[1]
    return from_us, tuple(numbers)


def _soonest(state: State, job: JobState, part: RungPart, taken: list[int]) -> tuple[int, list[int]] | None:
    """Find the domain in which enough nodes of a part are free first; of equals the one with most free now."""
    numbers, times = free_times(state, job, part.pool, taken)
    leaf = state.nodes.leaf
    domains = np.fromiter((leaf[number].above[part.level].number for number in numbers), np.int64, len(numbers))
    order = np.lexsort((np.array(numbers, np.int64), times, domains))
    domains, times = domains[order], times[order]
    starts = np.flatnonzero(np.diff(domains, prepend=-1))
    sizes = np.diff(starts, append=len(domains))
    starts = starts[sizes >= part.nodes]
    if not len(starts):
        return None
    last = times[starts + part.nodes - 1]
    soonest = starts[last == last.min()]
    free_now = [int((times[begin : begin + part.nodes] <= state.now_us).sum()) for begin in soonest]
    begin = int(soonest[int(np.argmax(free_now))])
    return int(last.min()), [numbers[index] for index in order[begin : begin + part.nodes]]


def free_times(state: State, job: JobState, pool: int, taken: list[int]) -> tuple[list[int], Array]:
    """Say when each node of a pool is free for a job, by time limits; nodes that it can't have are left out."""
    nodes, now_us = state.nodes, state.now_us
    limit_us = end_of(state, job) - now_us
    closed = {*job.avoid, *taken}
    ready, spare, lock, holders = nodes.ready, nodes.spare, nodes.lock, nodes.holder
    numbers, times = [], []
    for number in nodes.members[pool]:
        if not ready[number] or spare[number] or (lock[number] and lock[number] != job.id) or number in closed:
            continue
        holder = holders[number]
        if not holder:
            time_us = now_us
        elif nodes.leaving[number] or holder not in state.attempts:
            time_us = now_us + LEAVING_US
        else:
            time_us = state.attempts[holder].ends_us
        if nodes.until_us[number] >= FOREVER or time_us + limit_us <= nodes.until_us[number]:
            numbers.append(number)
            times.append(time_us)
    return numbers, np.array(times, np.int64)
