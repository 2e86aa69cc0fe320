"""Maintenance windows as reservations: nothing runs into one, and one that is far ahead takes nothing away."""

from argosy.contracts.event import PolicyChanged
from argosy.contracts.policy import Window
from support.cores import Core, policy, queue, size

H = "north/h800"
HOUR_US = 3_600_000_000


def window(from_h, to_h, **more):
    """Make a window of the north site."""
    return Window(site="north", from_us=int(from_h * HOUR_US), to_us=int(to_h * HOUR_US), **more)


NEXT_MONTH = window(720, 721)
LENDING = (queue("own", guarantee={"h800": 32}), queue("poor"))


class TestRunningIntoAWindow:
    def test_nothing_is_reclaimed_for_a_job_that_would_not_end_in_time(self):
        """A borrower was stopped for a job that then ran into the window on its nodes."""
        core = Core(policy(*LENDING, maintenance=(window(1, 2),)), north_h800=(4, 4, 4))
        poor = core.submit(size(H, 4), queue="poor", time_limit_us=HOUR_US // 2)
        own = core.submit(size(H, 4), queue="own", time_limit_us=3 * HOUR_US)
        assert (poor.state, own.state) == ("running", "waiting")

    def test_who_ends_in_time_reclaims_though_another_could_not(self):
        """What could not be freed for a long job is freed for a short one of the same queue."""
        core = Core(policy(*LENDING, maintenance=(window(2, 3),)), north_h800=(4, 4, 4))
        core.submit(size(H, 4), queue="poor", time_limit_us=HOUR_US)
        long = core.submit(size(H, 4), queue="own", time_limit_us=3 * HOUR_US, run=False)
        short = core.submit(size(H, 4), queue="own", time_limit_us=HOUR_US)
        assert (long.state, short.state) == ("waiting", "running")

    def test_what_is_reclaimed_leaves_out_nodes_that_are_due(self):
        """Of two racks of a borrower the one that is due for maintenance is no use to a long job."""
        core = Core(policy(*LENDING, maintenance=(window(1, 2, rack=0),)), north_h800=(8, 4, 8))
        core.submit(size(H, 4), queue="poor", time_limit_us=HOUR_US // 2)
        core.submit(size(H, 4), queue="poor", time_limit_us=HOUR_US // 2)
        own = core.submit(size(H, 4), queue="own", time_limit_us=3 * HOUR_US)
        assert {name.rsplit("-", 1)[1] for name in core.held(own)} == set("5678")

    def test_held_nodes_are_given_up_when_a_window_is_announced(self):
        """A gang held nodes, a window was announced for the time it would run, and it started all the same."""
        core = Core(policy(), north_h800=(4, 4, 4))
        core.submit(size(H, 4), time_limit_us=HOUR_US)
        gang = core.submit(size(H, 4), time_limit_us=HOUR_US)
        assert gang.state == "reserved"
        core.send(PolicyChanged, policy=policy(maintenance=(window(1.5, 2.5),)))
        core.wait(3600)
        assert (gang.attempts, core.why(gang).code) == (0, "MAINTENANCE")
        core.wait(2 * 3600)
        assert gang.attempts == 1

    def test_a_gang_holds_no_node_that_is_due_before_it_would_end(self):
        """It begins when the last of its nodes is free; one that is free now may be due by then."""
        core = Core(policy(maintenance=(window(1.5, 4, node="north-h800-1"),)), north_h800=(3, 3, 3))
        core.submit(size(H, 1), time_limit_us=HOUR_US // 2)
        core.submit(size(H, 2), time_limit_us=HOUR_US)
        gang = core.submit(size(H, 2), time_limit_us=HOUR_US)
        assert "north-h800-1" not in core.state.nodes.names(core.state.reservations[gang.id].nodes)


class TestFarWindows:
    def test_spares_are_kept(self):
        """A window of next month was announced for the whole site, and no spare was kept any more."""
        core = Core(policy(spares={"north": 1}, maintenance=(NEXT_MONTH,)), north_h800=(4, 4, 4)).run()
        assert core.state.nodes.spare.count(True) == 1

    def test_failed_nodes_are_replaced(self):
        """A job without a time limit lost a node, four were free, and it went back to its queue."""
        core = Core(policy(maintenance=(NEXT_MONTH,)), north_h800=(6, 6, 6))
        job = core.submit(size(H, 2))
        core.down(core.held(job)[0])
        core.wait(40)
        assert (job.state, job.attempts) == ("running", 1)

    def test_elastic_jobs_grow(self):
        """They take what falls free as without a window."""
        core = Core(policy(maintenance=(NEXT_MONTH,)), north_h800=(8, 8, 8))
        first = core.submit(size(H, 4))
        job = core.submit(size(H, 8), size(H, 4), elastic=True)
        core.end(first).wait(1300)
        assert len(core.held(job)) == 8

    def test_free_nodes_count_in_a_reclaim(self):
        """A job that is owed four nodes has three freed and takes the one that is free."""
        core = Core(policy(*LENDING, maintenance=(NEXT_MONTH,)), north_h800=(4, 4, 4))
        core.submit(size(H, 3), queue="poor")
        assert core.submit(size(H, 4), queue="own").state == "running"

    def test_gangs_have_nodes_held(self):
        """A gang without a time limit holds what falls free, though a window is announced."""
        core = Core(policy(hold_after_s=600.0, maintenance=(NEXT_MONTH,)), north_h800=(4, 4, 4))
        small = [core.submit(size(H, 1)) for _ in range(4)]
        gang = core.submit(size(H, 4))
        core.wait(1200)
        more = core.submit(size(H, 1))
        for job in small:
            core.end(job).wait(60)
        assert (gang.state, more.state) == ("running", "waiting")


class TestSparesInAWindow:
    def test_others_take_their_place(self):
        """The spare's rack went into maintenance, and the site had no spare till the window was over."""
        core = Core(policy(spares={"north": 1}), north_h800=(8, 4, 8)).run()
        spare = core.state.nodes.spare.index(True)
        rules = policy(spares={"north": 1}, maintenance=(window(1, 2, rack=spare // 4),))
        core.send(PolicyChanged, policy=rules)
        core.run()
        assert [number // 4 for number in range(8) if core.state.nodes.spare[number]] == [1 - spare // 4]
