"""What to do for a job that nothing is free for: free nodes that it is owed, or hold some for it.

Called by the pass for the first job of each blocked group; why it is blocked is `control.why`. Bounded: in one pass so
many jobs have nodes freed, and so many hold some in each pool. Must not know the order of jobs.
"""

from argosy.control.change import Unreserved
from argosy.control.order import Lane
from argosy.control.place import Room
from argosy.control.reclaim import Candidates, reclaim
from argosy.control.reserve import Outlook, reserve
from argosy.control.state import BLOCKED, Blocked, GroupKey, JobState
from argosy.control.why import early_code
from argosy.control.work import Work

RECLAIMS_MAX = 32


class Helper:
    """Helps blocked jobs in one pass. lacked: (queue, shape) for which nothing could be freed; holds: by pool."""

    def __init__(self, work: Work, room: Room) -> None:
        self.work, self.state, self.room = work, work.state, room
        self.reclaims, self.told = 0, False
        self.candidates = Candidates(work.state)
        self.outlook = Outlook(work.state)
        self.holds: dict[int, int] = {}
        self.lacked: dict[tuple[int, int], Blocked] = {}
        self.unknown = False

    def help(self, lane: Lane, job: JobState, closed: frozenset[int]) -> Blocked:
        """Reclaim for a blocked job, else hold nodes for it; give what to note of it."""
        state = self.state
        shape = state.shapes[lane.group[1]]
        standing = state.reservations.get(job.id) if lane.group[3] else None
        known = self.lacked.get((lane.queue, lane.group[1])) if not lane.group[3] else None
        owed = known is None and min(lane.depths) < len(state.quota.rows[lane.queue].path)
        if not (closed or standing or owed or self._has_hold(shape.parts[0])):
            return known or BLOCKED
        usable = [
            index
            for index, rung in enumerate(shape.rungs)
            if lane.allowed[index] and not (closed and any(pool in closed for pool, _ in rung.chips))
        ]
        if not usable:
            # A job that may not start must not keep nodes from those it waits for.
            if standing is not None:
                self._drop(job)
            return BLOCKED
        if standing is not None and standing.expires_us:
            return BLOCKED
        if owed:
            known = self._reclaim(lane, job, usable)
            if job.id in state.reservations and state.reservations[job.id].expires_us:
                return known
        self._hold(lane, job, usable)
        return known or BLOCKED

    def known(self, group: GroupKey) -> Blocked | None:
        """Give what is known already of an ordinary group that no free node suffices for; None if it needs a look."""
        found = self.lacked.get(group[:2])
        if self._has_hold(self.state.shapes[group[1]].parts[0]) or (found is None and not self._lacks(group)):
            return None
        return found or BLOCKED

    def _lacks(self, group: GroupKey) -> bool:
        """Say whether it is known of every rung of a group that nothing can be freed for it."""
        members = self.state.waiting.get(group)
        if members is None:
            return False
        shape, queue = self.state.shapes[group[1]], group[0]
        for need, parts in zip(shape.needs, shape.parts, strict=True):
            depth = self.state.quota.depth(queue, need)
            if len(parts) > 1 or not self.candidates.lacks(queue, depth, parts[0], -members[0][0]):
                return False
        return True

    def _has_hold(self, parts: tuple[tuple[int, int, int], ...]) -> bool:
        """Say whether the pools of a gang have room for another hold."""
        most = self.state.policy.reservations
        gang = len(parts) > 1 or parts[0][2] > 1
        return gang and all(self.holds.get(pool, 0) < most for pool, _, _ in parts)

    def exhausted(self) -> bool:
        """Say once that so many jobs had nodes freed that no more will in this pass."""
        if self.reclaims < RECLAIMS_MAX or self.told:
            return False
        self.told = True
        self.work.want_pass()
        return True

    def finish(self) -> None:
        """Look again when gangs whose start nobody can tell may have nodes held for them."""
        state = self.state
        if self.unknown and not any(purpose == "pass" for _, purpose, _ in state.timers):
            self.work.later(max(1.0, state.policy.hold_after_s), "pass")

    def _reclaim(self, lane: Lane, job: JobState, usable: list[int]) -> Blocked:
        """Free nodes at the first rung where that can be done; what fails once in a pass fails again."""
        if self.reclaims >= RECLAIMS_MAX:
            return BLOCKED
        shape = self.state.shapes[lane.group[1]]
        code, detail = reclaim(self.work, job, [shape.rungs[index] for index in usable], self.candidates)
        found = Blocked(code, detail) if code else BLOCKED
        if code == "RECLAIMING":
            self.reclaims += 1
            self.outlook = Outlook(self.state)
            self.candidates.forget()
            self.room.forget()
        elif not lane.group[3]:
            self.lacked[lane.queue, lane.group[1]] = found
        return found

    def _hold(self, lane: Lane, job: JobState, usable: list[int]) -> None:
        """Hold nodes for a gang at its best usable rung, for so many gangs a pool."""
        state = self.state
        shape = state.shapes[lane.group[1]]
        rung, need = shape.rungs[usable[0]], shape.needs[usable[0]]
        standing = job.id in state.reservations
        if not self._has_hold(shape.parts[usable[0]]):
            if standing:
                self._drop(job)
            return
        if state.quota.excess(lane.queue, need, state.quota.depth(lane.queue, need)) is not None:
            return
        for pool, _ in rung.chips:
            self.holds[pool] = self.holds.get(pool, 0) + 1
        self.unknown |= not reserve(self.work, job, rung, self.outlook)
        if standing:
            self.room.forget()
        else:
            self.room.changed(tuple((pool, 0, 0) for pool, _ in rung.chips))

    def _drop(self, job: JobState) -> None:
        self.work.change(Unreserved(job=job.id))
        self.room.forget()


def not_ready(work: Work, job: JobState) -> bool:
    """Say whether a job is not even looked at; meanwhile it holds nothing."""
    early = bool(early_code(work.state, job))
    if early and job.id in work.state.reservations:
        work.change(Unreserved(job=job.id))
    return early
