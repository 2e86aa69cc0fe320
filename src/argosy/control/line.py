"""Going through the line of waiting jobs: for each group a start, a reclaim, a hold, or nothing.

At most STARTS_MAX jobs start. Must not know how nodes are found, held or freed, nor who is passed over.
"""

from argosy.control.attempts import start
from argosy.control.board import DONE, LOOK, START
from argosy.control.place import end_of, find_parts
from argosy.control.settle import Helper
from argosy.control.work import Work

STARTS_MAX = 500


class Line:
    """The line of one pass. starts: how many jobs started so far."""

    def __init__(self, work: Work, helper: Helper) -> None:
        self.work, self.state, self.helper = work, work.state, helper
        self.order, self.room = helper.order, helper.order.room
        self.starts = 0

    def run(self) -> bool:
        """Go through the line; False if it had to end early."""
        what, lane = self.order.next()
        while what != DONE:
            if self.starts >= STARTS_MAX:
                return False
            what, lane = self._look_at(what, lane)
        return True

    def _look_at(self, what: int, lane: int) -> tuple[int, int]:
        """Do what is to be done for the first job of a group, and find the next group."""
        if what == LOOK:
            return self.order.next() if self.helper.not_ready(lane) else self.order.judge(lane)
        if what == START:
            if not self._start(lane):
                return self.order.judge(lane, failed=True)
            self.starts += 1
            self.order.again(lane)
        else:
            self.helper.help(lane)
        return self.order.next()

    def _start(self, lane: int) -> bool:
        """Start a job at the best rung that its tier, its quota and free nodes allow."""
        state, job, shape = self.state, self.helper.first_job(lane), self.helper.shape(lane)
        for index in self.order.startable(lane):
            nodes = find_parts(state, job, shape.rungs[index])
            if nodes is not None:
                standing = state.reservations.get(job.id)
                start(self.work, job, shape.rungs[index], nodes)
                self.order.used(state.queue_of(job), shape.needs[index])
                self.helper.taken(nodes, standing)
                return True
            if state.lanes.keys[lane][3] == "":
                self.room.lacks(shape.parts[index], end_of(state, job), self.order.rank(lane))
        return False
