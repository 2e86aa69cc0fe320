"""Queues whose jobs take turns: who gives way at the end of a round, what between rounds, and what others keep."""

import pytest

from argosy.contracts.policy import TIMED_ORDERS, Round
from argosy.control import log
from argosy.control.change import AttemptBegan
from argosy.control.snapshot import restore, snapshot
from support.cores import Core, option, policy, queue, size

H, A = "north/h800", "south/a910"
ROUND_S = 360


def core_of(order, rules=None, more=(), **groups):
    """Make a core with one queue that takes turns in rounds of six minutes, and further queues."""
    timed = queue("default", order=order, round=rules or Round(every_s=float(ROUND_S)))
    return Core(policy(timed, *more), **(groups or {"north_h800": 2}))


def job_of(core, nodes=1, work_s=3600, pools=((H, 1.0),), **claim):
    """Submit a job that needs so many seconds at its best speed; pools: where it runs, with its rate there."""
    ways = tuple(option(size(pool, nodes, "any", rate=rate * 1000), name=pool) for pool, rate in pools)
    best = max(rate for _, rate in pools)
    return core.submit(options=ways, work_tokens=round(work_s * best * 1000), **claim)


def states(*jobs):
    """States of jobs."""
    return [job.state for job in jobs]


class TestRounds:
    def test_the_shortest_runs_from_the_next_round(self):
        """A short job waits until the round is over, then takes the place of the longest."""
        core = core_of("shortest_remaining")
        long, longer, short = (job_of(core, work_s=seconds) for seconds in (7200, 9000, 600))
        assert states(long, longer, short) == ["running", "running", "waiting"]
        assert core.why(short).code == "TURN"
        core.wait(ROUND_S)
        assert states(long, longer, short) == ["running", "waiting", "running"]

    def test_what_falls_free_is_dealt_at_once(self):
        """A node that a job left does not idle until the round ends."""
        core = core_of("shortest_remaining", north_h800=1)
        first, second = job_of(core, work_s=600), job_of(core, work_s=7200)
        core.end(first)
        assert states(first, second) == ["ended", "running"]

    def test_work_done_counts(self):
        """A job that has run long is the shorter one, by the rates of its options and the time it ran."""
        core = core_of("shortest_remaining", north_h800=1)
        first = job_of(core, work_s=1000)
        core.wait(ROUND_S - 10)
        second = job_of(core, work_s=900)
        core.wait(30)
        assert states(first, second) == ["running", "waiting"]
        assert first.done_by(core.now_us) == (ROUND_S + 20) * 1000

    @pytest.mark.slow
    def test_fair_turns_go_round(self):
        """Three equal jobs on two nodes are served about alike after some rounds."""
        core = core_of("fair")
        jobs = [job_of(core, work_s=36_000) for _ in range(3)]
        core.wait(ROUND_S * 30)
        served = [job.done_by(core.now_us) for job in jobs]
        assert max(served) - min(served) <= 3 * ROUND_S * 1000

    def test_a_job_moves_to_better_chips(self):
        """When fast chips fall free a job on slow ones moves there at the end of the round, and gave way to nobody."""
        core = core_of("shortest_remaining", north_h800=1, south_a910=1)
        pools = ((H, 4.0), (A, 1.0))
        first, second = job_of(core, work_s=3600, pools=pools), job_of(core, work_s=3900, pools=pools)
        assert core.held(second)[0].startswith("south")
        core.end(first)
        core.wait(ROUND_S)
        assert core.held(second)[0].startswith("north")
        assert (second.attempts, second.exchanges) == (2, 0)

    def test_a_gang_gets_its_nodes_though_others_ran_there(self):
        """A short gang of four takes the place of four long jobs at once."""
        core = core_of("shortest_remaining", north_h800=4)
        singles = [job_of(core, work_s=90_000) for _ in range(4)]
        gang = job_of(core, nodes=4, work_s=600)
        core.wait(ROUND_S)
        assert gang.state == "running"
        assert len(core.held(gang)) == 4
        assert {job.state for job in singles} == {"waiting"}

    def test_priority_goes_before_the_order(self):
        """A job of higher priority runs though a shorter one waits."""
        core = core_of("shortest_remaining", north_h800=1)
        low = job_of(core, work_s=600)
        high = job_of(core, work_s=9000, priority=5)
        core.wait(ROUND_S)
        assert states(low, high) == ["waiting", "running"]

    def test_first_come_blocks_those_behind(self):
        """Under `fifo` a gang that finds no room is not passed, and nobody gives way to a younger job."""
        core = core_of("fifo", north_h800=4)
        first, gang, small = job_of(core, nodes=2), job_of(core, nodes=4), job_of(core, nodes=1)
        core.wait(ROUND_S * 2)
        assert states(first, gang, small) == ["running", "waiting", "waiting"]
        assert first.attempts == 1


class TestBounds:
    def test_exchanges_end(self):
        """A job that gave way as often as the queue allows is not made to again."""
        core = core_of("shortest_remaining", Round(every_s=float(ROUND_S), exchanges_at_most=1), north_h800=1)
        long = job_of(core, work_s=90_000)
        for _ in range(3):
            short = job_of(core, work_s=500)
            core.wait(ROUND_S)
            if short.state == "running":
                core.end(short)
        core.wait(ROUND_S)
        assert (long.exchanges, long.state) == (1, "running")

    def test_a_job_that_may_not_be_evicted_goes_on(self):
        """Not preemptible means no turns either."""
        core = core_of("shortest_remaining", north_h800=1)
        job = job_of(core, work_s=90_000, preemptible=False)
        job_of(core, work_s=500)
        core.wait(ROUND_S * 3)
        assert (job.state, job.attempts) == ("running", 1)

    def test_who_stays_keeps_its_nodes_from_higher_priority(self):
        """A job that may not be evicted is no room for one of higher priority; the next free node is."""
        core = core_of("fair", north_h800=2)
        stays, goes = job_of(core, work_s=90_000, preemptible=False), job_of(core, work_s=90_000)
        high = job_of(core, work_s=500, priority=9)
        core.wait(ROUND_S)
        assert states(stays, goes, high) == ["running", "waiting", "running"]

    def test_other_queues_nodes_are_not_dealt(self):
        """A queue that takes turns stops none but its own jobs."""
        core = core_of("shortest_remaining", more=(queue("other"),), north_h800=2)
        other = core.submit(size(H, 1), queue="other")
        job_of(core, work_s=9000)
        job_of(core, work_s=500)
        core.wait(ROUND_S * 3)
        assert (other.state, other.attempts) == ("running", 1)

    @pytest.mark.parametrize("order", TIMED_ORDERS)
    def test_lent_chips_come_back(self, order):
        """A job of a queue that takes turns gets the node that its queue owns and another borrowed, and no more."""
        timed = queue("default", order=order, guarantee={"h800": 8}, round=Round(every_s=float(ROUND_S)))
        core = Core(policy(timed, queue("other")), north_h800=2)
        others = [core.submit(size(H, 1), queue="other") for _ in range(2)]
        mine, second = job_of(core, work_s=9000), job_of(core, work_s=9000)
        assert (mine.state, second.state) == ("running", "waiting")
        assert sorted(states(*others)) == ["running", "waiting"]
        core.wait(ROUND_S * 2)
        assert states(*others).count("running") == 1
        assert states(mine, second).count("running") == 1

    def test_what_is_on_its_way_counts(self):
        """While nodes of one borrower fall free, after its notice, no second job of the queue has more freed."""
        rules = Round(every_s=float(ROUND_S))
        timed = queue("default", order="fair", guarantee={"h800": 8}, notice_s=60.0, round=rules)
        core = Core(policy(timed, queue("other")), north_h800=3)
        others = [core.submit(size(H, 1), queue="other") for _ in range(3)]
        mine = [job_of(core, work_s=9000) for _ in range(3)]
        assert sorted(states(*mine)) == ["reserved", "waiting", "waiting"]
        assert states(*others).count("stopping") == 1
        core.wait(61)
        assert sorted(states(*mine)) == ["running", "waiting", "waiting"]

    def test_turns_are_taken_within_the_queue(self):
        """A job of higher priority takes its queue's node at the end of the round, not before."""
        timed = queue("default", order="fair", guarantee={"h800": 8}, borrow={"*": 0}, round=Round(every_s=360.0))
        core = Core(policy(timed), north_h800=2)
        low = job_of(core, work_s=9000)
        high = job_of(core, work_s=9000, priority=5)
        assert states(low, high) == ["running", "waiting"]
        core.wait(ROUND_S)
        assert states(low, high) == ["waiting", "running"]

    def test_free_nodes_that_others_wait_for_are_left_to_them(self):
        """Without a guarantee a queue that takes turns does not snatch the node another queue's older job waits for."""
        core = core_of("shortest_remaining", more=(queue("other", guarantee={"h800": 16}),), north_h800=2)
        gang = core.submit(size(H, 2), queue="other")
        second = core.submit(size(H, 2), queue="other")
        mine = job_of(core, work_s=500)
        core.end(gang)
        assert (second.state, mine.state) == ("running", "waiting")

    def test_limits_of_the_queue_hold(self):
        """A queue that may not borrow never deals more than it owns."""
        timed = queue("default", order="fair", guarantee={"h800": 8}, borrow={"*": 0})
        core = Core(policy(timed), north_h800=4)
        jobs = [job_of(core, work_s=9000) for _ in range(3)]
        for _ in range(4):
            core.wait(ROUND_S)
            assert states(*jobs).count("running") == 1
        assert len([job for job in jobs if job.attempts]) == 3


class TestLog:
    @pytest.mark.slow
    @pytest.mark.parametrize("order", TIMED_ORDERS)
    def test_rounds_replay_to_the_same_bytes(self, order):
        """Snapshot and decisions give the same state, and the same events are decided the same way again."""
        core = core_of(order, north_h800=2, south_a910=2)
        before = snapshot(core.state)
        begun = len(core.records)
        for index in range(6):
            job_of(core, nodes=1 + index % 2, work_s=800 * (index + 1), pools=((H, 4.0), (A, 1.0 + index)))
            core.wait(ROUND_S / 2)
        again = restore(before)
        log.replay(again, core.records[begun:])
        assert snapshot(again) == snapshot(core.state)
        anew = restore(before)
        assert all(log.decide_again(anew, record) for record in core.records[begun:])
        assert core.count(AttemptBegan) >= 3
