"""Groups of waiting jobs that are alike, so that the pass looks at each kind of wish once, not at every job.

Alike means: same queue, same rungs, same time limit, nothing special. Jobs with a reservation, with nodes to avoid or
with a retry to wait for stand alone. Only keeps the groups; must not know what is free.
"""

from bisect import bisect_left, insort

from argosy.control.lanes import GroupKey
from argosy.control.nodes import FOREVER
from argosy.control.state import JobState, State


def group_key(state: State, job: JobState) -> GroupKey:
    """Give the group a waiting job belongs to."""
    limit_us = job.claim.time_limit_us
    special = job.avoid or job.not_before_us > job.submitted_us or job.id in state.reservations
    limit = FOREVER if limit_us is None else limit_us
    return state.queue_of(job), state.shape_of.get(job.id, -1), limit, job.id if special else ""


def enter(state: State, job: JobState, arrives: bool = True) -> None:
    """Put a waiting job into its group, by priority, then age. arrives: a pass that is running looks at it again."""
    key = group_key(state, job)
    members = state.waiting.setdefault(key, [])
    if not members:
        state.lanes.add(key, job.id in state.reservations, job.not_before_us if key[3] else 0)
    if arrives:
        state.arrived.append(key)
    insort(members, (-job.claim.priority, job.number, job.id))
    if members[0][1] == job.number:
        state.lanes.set_first(key, -job.claim.priority, job.number)


def leave(state: State, job: JobState) -> None:
    """Take a job out of its group."""
    key = group_key(state, job)
    members = state.waiting[key]
    place = bisect_left(members, (-job.claim.priority, job.number, job.id))
    del members[place]
    if not members:
        del state.waiting[key]
        state.lanes.drop(key)
    elif place == 0:
        state.lanes.set_first(key, *members[0][:2])


def set_shape(state: State, job: JobState) -> None:
    """Find or make the shape of a job's rungs."""
    number = state.shapes.number.get(job.rungs)
    if number is None:
        number = state.shapes.add(job.rungs, tuple(state.amounts_of(rung) for rung in job.rungs))
    state.shape_of[job.id] = number
