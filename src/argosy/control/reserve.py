"""Holding nodes for blocked gangs, so that small jobs do not starve them: who ends when, which domain is free first.

Jobs behind may still use held nodes if their time limit ends before the gang can start (backfill). Must not evict.
"""

from argosy.contracts.policy import SECOND_US
from argosy.control.change import Reserved, Unreserved
from argosy.control.domains import Domain, domain_at
from argosy.control.nodes import FOREVER
from argosy.control.place import end_of
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import JobState, State
from argosy.control.work import Work

LEAVING_US = 30 * SECOND_US
"""What a node that is being left is reckoned to take."""


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
        found = _soonest(state, job, part, set(numbers))
        if found is None:
            return None
        from_us = max(from_us, found[0])
        numbers += found[1]
    return from_us, tuple(numbers)


def _soonest(state: State, job: JobState, part: RungPart, taken: set[int]) -> tuple[int, list[int]] | None:
    """Find the domain in which enough nodes of a part are free first; of equals the one with most free now."""
    best: tuple[tuple[int, int, int], list[int]] | None = None
    times = free_times(state, job, part.pool)
    by_domain: dict[int, list[tuple[int, int]]] = {}
    domains: dict[int, Domain] = {}
    for number, time_us in times.items():
        if number not in taken:
            domain = domain_at(state.nodes.leaf[number], part.level)
            domains[id(domain)] = domain
            by_domain.setdefault(id(domain), []).append((time_us, number))
    for key, rows in by_domain.items():
        if len(rows) < part.nodes:
            continue
        rows.sort()
        chosen = rows[: part.nodes]
        free_now = sum(time_us <= state.now_us for time_us, _ in chosen)
        rank = (chosen[-1][0], -free_now, domains[key].number)
        if best is None or rank < best[0]:
            best = (rank, [number for _, number in chosen])
    return None if best is None else (best[0][0], best[1])


def free_times(state: State, job: JobState, pool: int) -> dict[int, int]:
    """Say when each node of a pool is free for a job, by time limits; nodes that it can't have are left out."""
    nodes, now_us = state.nodes, state.now_us
    limit_us = end_of(state, job) - now_us
    found = {}
    for number in nodes.of_pool(pool):
        lock = nodes.lock[number]
        if not nodes.ready[number] or nodes.spare[number] or lock not in ("", job.id) or number in job.avoid:
            continue
        holder = state.attempts.get(nodes.holder[number])
        if not nodes.holder[number]:
            time_us = now_us
        elif nodes.leaving[number] or holder is None:
            time_us = now_us + LEAVING_US
        else:
            time_us = holder.ends_us
        if nodes.until_us[number] >= FOREVER or time_us + limit_us <= nodes.until_us[number]:
            found[number] = time_us
    return found
