"""The pass: one order over all waiting jobs, and for each group a start, a reclaim, a hold, or the reason it waits.

Runs on PassDue. What its bounds leave is for the next pass, which is asked for then. Must not know how any of this is
done.
"""

from argosy.control.grow import grow
from argosy.control.line import Line
from argosy.control.owed import take_back
from argosy.control.rounds import deal_rounds
from argosy.control.settle import RECLAIMS_MAX, Helper
from argosy.control.spares import keep_spares
from argosy.control.work import Work


def run_pass(work: Work) -> None:
    """Start what can start, free what is owed, hold what must be held, and say of everything else why it waits."""
    state = work.state
    state.count_capacity()
    keep_spares(work)
    deal_rounds(work)
    helper = Helper(work)
    whole = Line(work, helper).run()
    if not whole:
        work.want_pass()
    deal_rounds(work, leftovers=True)
    take_back(work, RECLAIMS_MAX - helper.reclaims)
    state.why = helper.order.reasons(not whole)
    helper.finish()
    grow(work, helper.order.wanted())
