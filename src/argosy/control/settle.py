"""What to do for a job that nothing is free for: free nodes that it is owed, or hold some for it.

Called by the pass for the first job of each blocked group; why it is blocked is `control.why`. Bounded: in one pass so
many plans to reclaim are tried, and so many holds for each pool. Must not know the order of jobs.
"""

from argosy.control.order import Lane
from argosy.control.place import Room
from argosy.control.reclaim import reclaim
from argosy.control.reserve import give_up, reserve
from argosy.control.state import Blocked, JobState
from argosy.control.victims import Candidates
from argosy.control.why import BLOCKED
from argosy.control.work import Work

RECLAIMS_MAX = 256


class Helper:
    """Helps blocked jobs in one pass. lacked: (queue, part of the only rung) for which nothing could be freed."""

    def __init__(self, work: Work, room: Room) -> None:
        self.work, self.state, self.room = work, work.state, room
        self.tries = 0
        self.candidates = Candidates(work.state)
        self.holds: dict[int, int] = {}
        self.lacked: dict[tuple[int, object, int], Blocked] = {}
        self.unknown = False

    def help(self, lane: Lane, job: JobState, closed: frozenset[int]) -> Blocked:
        """Reclaim for a blocked job, else hold nodes for it; give what to note of it."""
        state = self.state
        shape = state.shapes[lane.group[1]]
        standing = state.reservations.get(job.id) if lane.group[3] else None
        if not closed and standing is None and not self._may_help(lane):
            return BLOCKED
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
        found = BLOCKED
        levels = len(state.quota.rows[lane.queue].path)
        entitled = [index for index in usable if lane.depths[index] < levels]
        if entitled:
            found = self._reclaim(lane, job, entitled)
            if job.id in state.reservations and state.reservations[job.id].expires_us:
                return found
        self._hold(lane, job, usable)
        return found

    def _may_help(self, lane: Lane) -> bool:
        """Say at little cost whether a group without nodes held for it may get any."""
        shape = self.state.shapes[lane.group[1]]
        if min(lane.depths) < len(self.state.quota.rows[lane.queue].path) and (lane.queue, shape) not in self.idle:
            return True
        most = self.state.policy.reservations
        return any(
            nodes > 1 and self.holds.get(pool, 0) < most for parts in shape.parts[:1] for pool, _, nodes in parts
        )

    def finish(self) -> None:
        """Look again when gangs whose start nobody can tell may have nodes held for them."""
        state = self.state
        if self.unknown and not any(purpose == "pass" for _, purpose, _ in state.timers):
            self.work.later(max(1.0, state.policy.hold_after_s), "pass")

    def _reclaim(self, lane: Lane, job: JobState, entitled: list[int]) -> Blocked:
        """Free nodes at the first rung where that can be done."""
        shape = self.state.shapes[lane.group[1]]
        key = (lane.queue, tuple(shape.parts[index] for index in entitled), job.claim.priority)
        if key in self.lacked and not job.avoid:
            return self.lacked[key]
        if self.tries >= RECLAIMS_MAX:
            self.work.want_pass()
            return BLOCKED
        self.tries += 1
        code, detail = reclaim(self.work, job, [shape.rungs[index] for index in entitled], self.candidates)
        if code == "RECLAIMING":
            self.room.forget()
            self.lacked.clear()
            return Blocked(code, detail)
        found = Blocked(code, detail) if code else BLOCKED
        self.lacked[key] = found
        return found

    def _hold(self, lane: Lane, job: JobState, usable: list[int]) -> None:
        """Hold nodes for a gang at its best usable rung, for so many gangs a pool."""
        state, most = self.state, self.state.policy.reservations
        shape = state.shapes[lane.group[1]]
        rung, need = shape.rungs[usable[0]], shape.needs[usable[0]]
        standing = job.id in state.reservations
        if rung.nodes < 2 or any(self.holds.get(pool, 0) >= most for pool, _ in rung.chips):
            if standing:
                self._drop(job)
            return
        if state.quota.excess(lane.queue, need, state.quota.depth(lane.queue, need)) is not None:
            return
        for pool, _ in rung.chips:
            self.holds[pool] = self.holds.get(pool, 0) + 1
        before = state.arrivals
        self.unknown |= not reserve(self.work, job, rung)
        if state.arrivals != before:
            self.room.forget()
        else:
            self.room.changed(tuple((pool, 0, 0) for pool, _ in rung.chips))

    def _drop(self, job: JobState) -> None:
        give_up(self.work, job)
        self.room.forget()


def not_ready(work: Work, job: JobState) -> Blocked | None:
    """Say why a job is not even looked at, None if it is; meanwhile it holds nothing."""
    state = work.state
    if state.policy.queues[state.queue_of(job)].state == "draining":
        code = "QUEUE_DRAINING"
    elif job.not_before_us > state.now_us:
        code = "BACKOFF"
    elif not job.rungs:
        code = "NO_OPTIONS"
    else:
        return None
    if job.id in state.reservations:
        give_up(work, job)
    return Blocked(code)
