"""What to do for a job that nothing is free for: free nodes that it is owed, or hold some for it.

Called by the pass for the first job of a blocked group; why it is blocked is `control.why`. Bounded: in one pass so
many jobs have nodes freed, and so many hold some in each pool. Must not know the order of jobs.
"""

from collections.abc import Iterable

from argosy.control.order import Order
from argosy.control.reclaim import Plan, may_reclaim, reclaim
from argosy.control.reserve import Outlook, reserve, unreserve
from argosy.control.shapes import Shape
from argosy.control.state import BLOCKED, Blocked, JobState, Reservation
from argosy.control.victims import Candidates
from argosy.control.why import early_code
from argosy.control.work import Work

RECLAIMS_MAX = 32


class Helper:
    """Helps blocked jobs in one pass, and keeps what the pass knows true when nodes move."""

    def __init__(self, work: Work) -> None:
        self.work, self.state = work, work.state
        self.order = Order(work.state)
        self.room = self.order.room
        self.candidates = Candidates(work.state)
        self.outlook = Outlook(work.state)
        self.reclaims = 0
        self.unknown = False

    def first_job(self, lane: int) -> JobState:
        """Give the first job of a group."""
        return self.state.jobs[self.state.waiting[self.state.lanes.keys[lane]][0][2]]

    def shape(self, lane: int) -> Shape:
        """Give the rungs of a group."""
        return self.state.shapes[self.state.lanes.keys[lane][1]]

    def taken(self, parts: Iterable[tuple[int, ...]], standing: Reservation | None) -> None:
        """Note that a job started on these nodes. standing: what was held for it before."""
        numbers = [number for part in parts for number in part]
        self.room.changed({self.state.nodes.pool[number] for number in numbers})
        self.outlook.changed(numbers)
        if standing is not None:
            self._loosed(standing)

    def _loosed(self, standing: Reservation) -> None:
        """Note that these nodes are held no longer for whom they were."""
        if not standing.pinned:
            self.order.board.holds[[pool for pool, _ in standing.rung.chips]] -= 1
        self.outlook.changed(standing.nodes)
        self.room.forget(pool for pool, _ in standing.rung.chips)

    def help(self, lane: int) -> None:
        """Reclaim for a blocked job, else hold nodes for it; note what was found."""
        state, job = self.state, self.first_job(lane)
        usable = self.order.usable(lane)
        standing = state.reservations.get(job.id)
        if not usable:
            # A job that may not start must not keep nodes from those it waits for.
            self._drop(job)
        elif standing is None or not standing.expires_us:
            found = self._reclaim(lane, job)
            if found != BLOCKED:
                self.order.note(lane, found)
            if job.id not in state.reservations or not state.reservations[job.id].expires_us:
                self._hold(lane, job, usable[0][0])

    def finish(self) -> None:
        """Look again when gangs whose start nobody can tell may have nodes held for them."""
        state = self.state
        if self.unknown and not any(purpose == "pass" for _, purpose, _ in state.timers):
            self.work.later(max(1.0, state.policy.hold_after_s), "pass")

    def not_ready(self, lane: int) -> bool:
        """Say whether a job that holds nodes is not even looked at; then it gives them up."""
        job = self.first_job(lane)
        early = bool(early_code(self.state, job))
        if early:
            self.order.note(lane, BLOCKED)
            self._drop(job)
        return early

    def _reclaim(self, lane: int, job: JobState) -> Blocked:
        """Free nodes at the first rung where that can be done; remember what can't."""
        owed = self.order.owed(lane)
        if not owed or self.reclaims >= RECLAIMS_MAX or not may_reclaim(self.state, job):
            return BLOCKED
        shape, noted, standing = self.shape(lane), BLOCKED, self.state.reservations.get(job.id)
        for index, depth in owed:
            plan = reclaim(self.work, job, shape.rungs[index], depth, self.candidates)
            said = BLOCKED if plan is None else plan.said
            if plan is not None and said.code == "RECLAIMING":
                self._count_reclaim(plan, () if standing is None else standing.nodes)
                return said
            if len(shape.parts[index]) == 1 and (plan is None or said.code) and not job.avoid:
                part = shape.parts[index][0]
                least = part
                if not said.code:
                    least = self.candidates.least(job, shape.rungs[index], shape.needs[index], depth)
                self.order.lacks(lane, depth, least, self.candidates.due_us(job, part[0]), said)
            noted = said if said.code else noted
        return noted

    def _count_reclaim(self, plan: Plan, held: tuple[int, ...]) -> None:
        """Take in that others were stopped or shrunk for a job. held: nodes that were held for it before."""
        self.reclaims += 1
        self.outlook.changed((*plan.touched(), *held))
        self.candidates.forget()
        self.room.forget()
        self.order.refill()
        if self.reclaims >= RECLAIMS_MAX:
            self.order.stop_freeing()
            self.work.want_pass()

    def _hold(self, lane: int, job: JobState, best: int) -> None:
        """Hold nodes for a gang at its best usable rung, for so many gangs a pool; who holds some keeps its place."""
        state, standing = self.state, self.state.reservations.get(job.id)
        rung, parts = self.shape(lane).rungs[best], self.shape(lane).parts[best]
        gang, kept = len(parts) > 1 or parts[0][2] > 1, () if standing is None else dict(standing.rung.chips)
        holds, at_most = self.order.board.holds, state.policy.reservations
        if not gang or any(holds[pool] - (pool in kept) >= at_most for pool, _, _ in parts):
            self._drop(job)
            return
        before = len(self.work.changes)
        self.unknown |= not reserve(self.work, job, rung, self.outlook)
        if len(self.work.changes) == before:
            return
        if standing is not None:
            self._loosed(standing)
        if job.id in state.reservations:
            self.order.board.holds[[pool for pool, _ in rung.chips]] += 1
        self.room.changed({pool for pool, _ in rung.chips})

    def _drop(self, job: JobState) -> None:
        """Give up what is held for a job."""
        standing = self.state.reservations.get(job.id)
        if standing is not None:
            unreserve(self.work, job)
            self._loosed(standing)
