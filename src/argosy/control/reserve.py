"""Holding nodes for blocked gangs, so that small jobs do not starve them: who ends when, which domain is free first.

Jobs behind may still use held nodes if their time limit ends before the gang can start (backfill). Must not evict.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np
import numpy.typing as npt

from argosy.contracts.compiled import compiled
from argosy.contracts.policy import SECOND_US
from argosy.control.change import Reserved, Unreserved
from argosy.control.nodes import FOREVER
from argosy.control.place import end_of, needed_until
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import LOST_NODES, JobState, State
from argosy.control.work import Work

LEAVING_US = 30 * SECOND_US
"""What a node that is being left is reckoned to take."""

NEVER = FOREVER + 1
"""A time later than FOREVER, of a node that no waiting gang can count on."""

Array = npt.NDArray[np.int64]
Usable = npt.NDArray[np.bool_]


def reserve(work: Work, job: JobState, rung: Rung, outlook: Outlook) -> bool:
    """Hold nodes for a blocked gang, unless it has its hold already; False when it is too early to hold any."""
    state = work.state
    standing = state.reservations.get(job.id)
    if standing is not None and (standing.pinned or still_good(state, job)):
        return True
    chosen = _choose(state, job, rung, outlook)
    if chosen is None:
        if standing is not None:
            unreserve(work, job)
        return True
    from_us, numbers = chosen
    # Whoever ran until nodes of its gang were lost has waited its turn before.
    soon = job.reason != LOST_NODES and state.now_us - job.since_us < state.us(state.policy.hold_after_s)
    if from_us >= FOREVER and soon:
        return False
    # Nobody can promise to end before an unknown time, so nobody may use the nodes meanwhile.
    known_us = 0 if from_us >= FOREVER else from_us
    work.change(Reserved(job=job.id, rung=rung, nodes=numbers, from_us=known_us))
    outlook.held(numbers)
    return True


def unreserve(work: Work, job: JobState) -> None:
    """Hold nothing for a job any more."""
    work.change(Unreserved(job=job.id))


def still_good(state: State, job: JobState) -> bool:
    """Say whether every node held for a job can still be had, and its rung is still one of the job's."""
    reservation, nodes = state.reservations[job.id], state.nodes
    late_us = max(reservation.from_us - state.now_us, 0)
    until_us = needed_until(state, end_of(state, job)) + late_us
    return reservation.rung in job.rungs and all(
        nodes.ready[number]
        and nodes.lock[number] == job.id
        and nodes.until_us[number] >= until_us
        and number not in job.avoid
        for number in reservation.nodes
    )


def _choose(state: State, job: JobState, rung: Rung, outlook: Outlook) -> tuple[int, tuple[int, ...]] | None:
    """Find the domain for every part that is free first, and has no maintenance while the job runs there."""
    limit_us, from_us = needed_until(state, end_of(state, job)) - state.now_us, state.now_us
    while True:
        found = _soonest(state, job, rung, outlook, from_us)
        if found is None or found[0] >= FOREVER:
            return found
        if all(state.nodes.until_us[number] >= found[0] + limit_us for number in found[1]):
            return found
        # It begins when the last of its nodes is free, too late for some that are free sooner.
        from_us = found[0]


def _soonest(
    state: State, job: JobState, rung: Rung, outlook: Outlook, after_us: int
) -> tuple[int, tuple[int, ...]] | None:
    """Find nodes for every part that are free first, if they were taken after a time."""
    numbers: list[int] = []
    from_us = after_us
    for part in rung.parts:
        found = _part_soonest(state, job, part, numbers, outlook, after_us)
        if found is None:
            return None
        from_us = max(from_us, found[0])
        numbers += found[1]
    return from_us, tuple(numbers)


def _part_soonest(
    state: State, job: JobState, part: RungPart, taken: list[int], outlook: Outlook, after_us: int
) -> tuple[int, list[int]] | None:
    """Find the domain in which enough nodes of a part are free first; of equals the one with most free now."""
    view = outlook.of(part.pool, job.id if job.id in state.reservations else "")
    times = view.times
    if taken or job.avoid:
        times = np.where(np.isin(view.numbers, [*taken, *job.avoid]), NEVER, times)
    limit_us = needed_until(state, end_of(state, job)) - state.now_us
    order, domains = view.order(part.level), view.domains(part.level)
    begin = np.where(times < FOREVER, np.maximum(times, after_us), state.now_us)
    usable = (times < NEVER) & ((view.until >= FOREVER) | (begin + limit_us <= view.until))
    from_us, chosen = _first_free(order, domains, times, usable, part.nodes, state.now_us)
    return (int(from_us), view.numbers[chosen].tolist()) if len(chosen) else None


@compiled
def _first_free(
    order: Array, domains: Array, times: Array, usable: Usable, wanted: int, now_us: int
) -> tuple[int, Array]:
    """Give when so many nodes of one domain are free, and which; none where no domain has them.

    order: nodes by domain, then by time.
    """
    best, best_us, most_now = -1, NEVER, 0
    domain, found, now = -1, 0, 0
    for node in order:
        if domains[node] != domain:
            domain, found, now = domains[node], 0, 0
        if usable[node] and found < wanted:
            found += 1
            now += times[node] <= now_us
            last_us = times[node]
            if found == wanted and (last_us < best_us or (last_us == best_us and now > most_now)):
                best, best_us, most_now = domain, last_us, now
    some = np.array([node for node in order if usable[node] and domains[node] == best], np.int64)
    return best_us, some[:wanted]


class View:
    """When each node of a pool is free, by time limits; NEVER for one that nobody else can have."""

    def __init__(self, state: State, pool: int) -> None:
        nodes = state.nodes
        members = nodes.members[pool]
        self.state, self.pool = state, pool
        self.numbers: Array = np.array(members, np.int64)
        self.times: Array = np.array(_free_times(state, members, ""), np.int64)
        self.until: Array = np.array([nodes.until_us[number] for number in members], np.int64)
        self._domains: dict[int, Array] = {}
        self._orders: dict[int, Array] = {}

    def changed(self, numbers: list[int]) -> None:
        """Look again at when some nodes are free."""
        self.times[np.searchsorted(self.numbers, numbers)] = _free_times(self.state, numbers, "")
        self._orders.clear()

    def seen_by(self, job: str) -> View:
        """Give the same for a job that nodes are held for, which may have those too."""
        nodes, seen = self.state.nodes, copy(self)
        own = [number for number in self.state.reservations[job].nodes if nodes.pool[number] == self.pool]
        seen.times, seen._orders = self.times.copy(), {}
        seen.times[np.searchsorted(self.numbers, own)] = _free_times(self.state, own, job)
        return seen

    def domains(self, level: int) -> Array:
        """Give the number of the domain of a level that each node lies in."""
        if level not in self._domains:
            self._domains[level] = np.array(self.state.nodes.domains(self.pool, level), np.int64)
        return self._domains[level]

    def order(self, level: int) -> Array:
        """Sort nodes by domain, then by when they are free, then by number, which is how they stand."""
        if level not in self._orders:
            self._orders[level] = np.lexsort((self.times, self.domains(level)))
        return self._orders[level]


class Outlook:
    """What is known in a pass of when nodes are free, worked out once a pool until nodes are taken or held there."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._views: dict[int, View] = {}

    def of(self, pool: int, job: str = "") -> View:
        """Give when a pool's nodes are free; for a job with nodes held for it, those too."""
        if pool not in self._views:
            self._views[pool] = View(self.state, pool)
        return self._views[pool].seen_by(job) if job else self._views[pool]

    def changed(self, numbers: Iterable[int]) -> None:
        """Note that these nodes were taken, freed, or are held otherwise."""
        for pool, some in self._by_pool(numbers).items():
            if pool in self._views:
                self._views[pool].changed(some)

    def held(self, numbers: Iterable[int]) -> None:
        """Note that these nodes are held for somebody now."""
        for pool, gone in self._by_pool(numbers).items():
            if pool in self._views:
                view = self._views[pool]
                view.times[np.searchsorted(view.numbers, gone)] = NEVER

    def _by_pool(self, numbers: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in numbers:
            found.setdefault(self.state.nodes.pool[number], []).append(number)
        return found


def _free_times(state: State, numbers: list[int], job: str) -> list[int]:
    """Say when nodes are free: NEVER where they are not ready, spares, or held for somebody."""
    nodes, now_us, gone_us = state.nodes, state.now_us, state.now_us + LEAVING_US
    ready, spare, lock, holder, leaving = nodes.ready, nodes.spare, nodes.lock, nodes.holder, nodes.leaving
    attempts, found = state.attempts, []
    for number in numbers:
        if not ready[number] or spare[number] or (lock[number] and lock[number] != job):
            found.append(NEVER)
        elif not holder[number]:
            found.append(now_us)
        elif leaving[number]:
            found.append(gone_us)
        else:
            attempt = attempts.get(holder[number])
            found.append(gone_us if attempt is None else attempt.ends_us)
    return found
