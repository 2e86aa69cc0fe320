"""The pass: one order over all waiting jobs, and for each group a start, a reclaim, a hold, or the reason it waits.

Runs on PassDue. At most STARTS_MAX jobs start in one pass; then another is asked for. Must not know how nodes are
found, held or freed, nor who is passed over.
"""

from argosy.control.attempts import start
from argosy.control.board import DONE, LOOK, START
from argosy.control.grow import grow
from argosy.control.place import end_of, find_parts
from argosy.control.rounds import deal_rounds
from argosy.control.settle import Helper
from argosy.control.spares import keep_spares
from argosy.control.work import Work

STARTS_MAX = 500


class Pass:
    """What one pass remembers while it runs."""

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
                start(self.work, job, shape.rungs[index], nodes)
                self.order.used(state.queue_of(job), shape.needs[index])
                self.helper.taken(nodes)
                return True
            if state.lanes.keys[lane][3] == "":
                self.room.lacks(shape.parts[index], end_of(state, job))
        return False


def run_pass(work: Work) -> None:
    """Start what can start, free what is owed, hold what must be held, and say of everything else why it waits."""
    state = work.state
    state.count_capacity()
    keep_spares(work)
    deal_rounds(work)
    helper = Helper(work)
    whole = Pass(work, helper).run()
    if not whole:
        work.want_pass()
    deal_rounds(work, leftovers=True)
    state.why = helper.order.reasons(not whole)
    helper.finish()
    grow(work, helper.order.wanted())
