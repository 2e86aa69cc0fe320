"""Finding nodes for one rung of one job among what is free, what is held for it, and what it may use before others.

Reads the state and changes nothing. Must not know the order of jobs, nor evict anybody.
"""

from argosy.contracts.policy import SECOND_US
from argosy.control.domains import add, pick, remove
from argosy.control.nodes import FOREVER
from argosy.control.rungs import Rung
from argosy.control.state import JobState, Reservation, State

HORIZON_US = 86_400 * SECOND_US
"""How far ahead a job without a time limit minds a maintenance window; later ones will move it."""

Parts = tuple[tuple[int, ...], ...]


def end_of(state: State, job: JobState) -> int:
    """Say when a job would end if it started now, FOREVER without a time limit."""
    limit_us = job.claim.time_limit_us
    return FOREVER if limit_us is None else state.now_us + limit_us


def needed_until(state: State, end_us: int) -> int:
    """Say until when no maintenance of its nodes may begin for a job that ends at a time, FOREVER without an end."""
    return min(end_us, state.now_us + HORIZON_US) if end_us == FOREVER else end_us


def late_nodes(state: State, pool: int, until_us: int) -> list[int]:
    """List the free nodes of a pool kept from others for maintenance alone, which does not begin before a time."""
    due = state.nodes.held_for(pool).get(("", 0), ())
    return sorted(number for number in due if state.nodes.until_us[number] >= until_us)


def usable_late(state: State, job: JobState, rung: Rung) -> list[int]:
    """List the late nodes of a rung's pools that a job which starts now may use."""
    until_us = needed_until(state, end_of(state, job))
    found = [number for pool, _ in rung.chips for number in late_nodes(state, pool, until_us)]
    return [number for number in found if number not in job.avoid]


def find_parts(state: State, job: JobState, rung: Rung) -> Parts | None:
    """Find free nodes for every part of a rung, each within the smallest domain that has them; None if any lacks."""
    held_for_it = reserved_parts(state, job, rung)
    if held_for_it is not None:
        return held_for_it
    extra = [number for pool, _ in rung.chips for number in borrowed_nodes(state, job, pool)]
    if not extra and not job.avoid:
        return _find(state, rung)
    mine = {pool for pool, _ in rung.chips}
    with state.nodes.lent(extra, [number for number in job.avoid if state.nodes.pool[number] in mine]):
        return _find(state, rung)


def reserved_parts(state: State, job: JobState, rung: Rung) -> Parts | None:
    """Give the nodes held for a job, by parts, if it is this rung they are for, and all are free for long enough."""
    reservation, nodes = state.reservations.get(job.id), state.nodes
    if reservation is None or reservation.rung != rung:
        return None
    until_us = needed_until(state, end_of(state, job))
    if not all(nodes.is_free(number) and nodes.until_us[number] >= until_us for number in reservation.nodes):
        return None
    return split(rung, reservation.nodes)


def split(rung: Rung, numbers: tuple[int, ...]) -> Parts:
    """Deal nodes to a rung's parts in order."""
    parts, begin = [], 0
    for part in rung.parts:
        parts.append(numbers[begin : begin + part.nodes])
        begin += part.nodes
    return tuple(parts)


def borrowed_nodes(state: State, job: JobState, pool: int) -> list[int]:
    """List free nodes that are withheld from others but not from this job: held for it, or free for long enough."""
    nodes, end_us = state.nodes, end_of(state, job)
    needed_us = needed_until(state, end_us)
    found: list[int] = []
    for (lock, until_us), numbers in nodes.held_for(pool).items():
        if lock in ("", job.id) or end_us <= until_us or outranks(state, job, state.reservations[lock]):
            found += [number for number in numbers if needed_us <= nodes.until_us[number]]
    return sorted(number for number in found if number not in job.avoid)


def outranks(state: State, job: JobState, reservation: Reservation) -> bool:
    """Say whether a job goes before the one nodes are held for: entitled before borrowing, then priority."""
    return not reservation.pinned and _rank(state, job) < _rank(state, state.jobs[reservation.job])


def _rank(state: State, job: JobState) -> tuple[int, int]:
    queue = state.queue_of(job)
    least = len(state.quota.rows[queue].path)
    for need in state.shapes[state.shape_of[job.id]].needs:
        least = min(least, state.quota.depth(queue, need))
        if not least:
            break
    return least, -job.claim.priority


def _find(state: State, rung: Rung) -> Parts | None:
    """Place part by part; parts of one pool must not take the same nodes."""
    nodes = state.nodes
    parts: list[tuple[int, ...]] = []
    taken: list[int] = []
    several = len(rung.parts) > len(rung.chips)
    for part in rung.parts:
        domain = nodes.trees[part.pool].find(part.nodes, part.level)
        if domain is None:
            parts = []
            break
        parts.append(tuple(pick(domain, part.nodes)))
        if several:
            taken += parts[-1]
            for number in parts[-1]:
                remove(nodes.leaf[number], number)
    for number in taken:
        add(nodes.leaf[number], number)
    return tuple(parts) if parts else None
