"""Situations that users of other schedulers complain of; each test opens with the story."""

from argosy.contracts.event import AttemptEnded, NodeSeen, OptionsOffered, TrustChanged
from argosy.contracts.policy import Breaker, Reclaim, Retries
from argosy.control.change import JobMoved
from argosy.control.state import Blocked
from argosy.control.why import judge
from support.cores import Core, option, policy, queue, size

H, A = "north/h800", "south/a910"
HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000


def evictions(core):
    """How many times a job was evicted."""
    return sum(
        isinstance(c, JobMoved) and c.to == "stopping" and c.reason == "preempted"
        for record in core.records
        for c in record.changes
    )


class TestGangsStarvedBySmallJobs:
    def test_a_gang_starts_although_small_jobs_keep_coming(self):
        """A 4-node gang waits while one-node jobs, always enough of them queued, take every node that falls free."""
        core = Core(policy(hold_after_s=600.0), north_h800=(4, 4, 4))
        for _ in range(4):
            core.submit(size(H, 1), time_limit_us=HOUR_US)
        core.wait(60)
        gang = core.submit(size(H, 4), time_limit_us=HOUR_US)
        for _ in range(12):
            core.submit(size(H, 1), time_limit_us=HOUR_US)
            core.wait(600)
        assert (gang.attempts, gang.reason) == (1, "time_limit")

    def test_a_gang_starts_without_any_time_limits(self):
        """The same without time limits: nobody knows when nodes fall free, so after a while they are kept."""
        core = Core(policy(hold_after_s=600.0), north_h800=(4, 4, 4))
        small = [core.submit(size(H, 1)) for _ in range(4)]
        gang = core.submit(size(H, 4))
        more = [core.submit(size(H, 1)) for _ in range(4)]
        core.wait(1200)
        for job in small:
            core.end(job).wait(60)
        assert (gang.state, [job.state for job in more]) == ("running", ["waiting"] * 4)

    def test_short_jobs_run_before_the_gang_without_delaying_it(self):
        """Held nodes need not idle: a job that ends before the gang can start is let in, a longer one is not."""
        core = Core(north_h800=(4, 4, 4))
        core.submit(size(H, 3), time_limit_us=HOUR_US)
        gang = core.submit(size(H, 4), time_limit_us=HOUR_US)
        long = core.submit(size(H, 1), time_limit_us=2 * HOUR_US)
        assert core.why(long).code == "RESERVED"
        short = core.submit(size(H, 1), time_limit_us=30 * MINUTE_US)
        assert (gang.state, long.state, short.state) == ("reserved", "waiting", "running")
        core.wait(3601)
        assert gang.state == "running"


class TestStrictOrderBlockingOtherChips:
    def test_a_blocked_head_blocks_its_own_chips_only(self):
        """A strict queue's head waits for h800; the job behind it wants ascend, which is idle, and must get it."""
        core = Core(policy(queue("q", order="strict")), north_h800=4, south_a910=4)
        core.submit(size(H, 2), queue="q")
        head = core.submit(size(H, 4), queue="q")
        other_chips = core.submit(size(A, 1), queue="q")
        same_chips = core.submit(size(H, 1), queue="q", time_limit_us=MINUTE_US)
        assert (head.state, other_chips.state, same_chips.state) == ("waiting", "running", "waiting")
        assert core.why(same_chips).code == "ORDER"


class TestSmallRequestEvictingManyChips:
    def test_eviction_is_capped_by_what_is_asked(self):
        """A request for 48 chips found no place but under a gang of 376, and evicted all of it."""
        rules = policy(queue("own", guarantee={"h800": 48}), queue("big"))
        core = Core(rules, north_h800=(47, 47, 47))
        big = core.submit(size(H, 47), queue="big")
        job = core.submit(size(H, 6), queue="own")
        why = core.why(job)
        assert (big.state, job.state, why.code) == ("running", "waiting", "RECLAIM_CAP")
        assert "needs 48 chips; freeing them would stop 376" in why.text

    def test_the_cheapest_place_is_chosen(self):
        """With a small borrower beside the large one, the small one goes."""
        rules = policy(queue("own", guarantee={"h800": 48}), queue("big"))
        core = Core(rules, north_h800=(16, 4, 16))
        large = core.submit(size(H, 10), queue="big")
        small = core.submit(size(H, 6), queue="big")
        job = core.submit(size(H, 6), queue="own")
        assert (large.state, small.state, job.state) == ("running", "waiting", "running")

    def test_elastic_borrowers_shrink_before_anybody_is_stopped(self):
        """A borrower that can run on fewer nodes keeps running on them."""
        rules = policy(queue("own", guarantee={"h800": 32}), queue("big"))
        core = Core(rules, north_h800=(8, 4, 8))
        big = core.submit(size(H, 8), size(H, 4), queue="big", elastic=True)
        job = core.submit(size(H, 4), queue="own")
        assert (big.state, len(core.held(big)), job.state, evictions(core)) == ("running", 4, "running", 0)


class TestPreemptAdmitLoops:
    def test_the_victim_does_not_come_back_before_the_preemptor(self):
        """The evicted job was admitted again at once onto the nodes freed for its preemptor, and evicted again."""
        rules = policy(queue("own", guarantee={"h800": 32}, notice_s=60.0), queue("poor"))
        core = Core(rules, north_h800=(4, 4, 4))
        poor = core.submit(size(H, 4), queue="poor")
        own = core.submit(size(H, 4), queue="own")
        assert (poor.state, core.why(own).code) == ("stopping", "RECLAIMING")
        core.wait(61)
        assert (poor.state, own.state) == ("waiting", "running")
        core.wait(36_000)
        assert evictions(core) == 1

    def test_two_owners_do_not_evict_each_other(self):
        """Two queues within their guarantees share a full fleet: nobody is evicted, however often the pass runs."""
        rules = policy(queue("a", guarantee={"h800": 16}), queue("b", guarantee={"h800": 16}))
        core = Core(rules, north_h800=(4, 4, 4))
        for name in ("a", "b", "a", "b", "a", "b"):
            core.submit(size(H, 1), queue=name)
        core.wait(36_000)
        assert evictions(core) == 0

    def test_evictions_per_job_are_bounded(self):
        """A job that was evicted as often as the policy allows is left alone."""
        rules = policy(
            queue("own", guarantee={"h800": 32}), queue("poor"), reclaim=Reclaim(evictions_at_most=1, cooldown_s=60.0)
        )
        core = Core(rules, north_h800=(4, 4, 4))
        poor = core.submit(size(H, 4), queue="poor")
        first = core.submit(size(H, 4), queue="own")
        core.wait(120).end(first)
        second = core.submit(size(H, 4), queue="own")
        core.wait(600)
        assert (poor.state, second.state, poor.evictions) == ("running", "waiting", 1)


class TestPreemptionInSeveralClusters:
    def test_one_job_has_nodes_freed_in_one_place(self):
        """A job that could run in either of two sites had borrowers evicted in both."""
        rules = policy(queue("own", guarantee={"h800": 32, "a910": 32}, notice_s=60.0), queue("poor"))
        core = Core(rules, north_h800=(4, 4, 4), south_a910=(4, 4, 4))
        north, south = core.submit(size(H, 4), queue="poor"), core.submit(size(A, 4), queue="poor")
        own = core.submit(options=(option(size(H, 4), name="n"), option(size(A, 4), name="s")), queue="own")
        core.submit(size(H, 1), queue="poor")
        assert sorted([north.state, south.state]) == ["running", "stopping"]
        core.wait(61)
        assert (own.state, evictions(core)) == ("running", 1)


class TestQuotaThatIgnoresNodes:
    def test_quota_for_nodes_that_are_down_starts_nothing(self):
        """Quota said 32 chips were free, the nodes behind it were down; the job was admitted and hung."""
        core = Core(policy(queue("q", guarantee={"h800": 32})), north_h800=(4, 4, 4))
        core.down("north-h800-1", "north-h800-2")
        job = core.submit(size(H, 4), queue="q")
        assert (job.state, core.why(job).code) == ("waiting", "NODES_DOWN")

    def test_a_guarantee_that_is_not_lent_is_kept_from_borrowers(self):
        """A queue that lends nothing finds its nodes free, though others wait and its guarantee exceeds what is up."""
        rules = policy(queue("own", guarantee={"h800": 16}, lend={"*": 0}), queue("poor"))
        core = Core(rules, north_h800=(4, 4, 4))
        poor = [core.submit(size(H, 1), queue="poor") for _ in range(4)]
        assert [job.state for job in poor] == ["running", "running", "waiting", "waiting"]
        assert core.why(poor[3]).code == "NO_QUOTA"
        assert core.submit(size(H, 2), queue="own").state == "running"


class TestFailedNodesReplacedOneAtATime:
    def test_all_failed_nodes_are_replaced_together(self):
        """Two nodes of one rack died within a second; the job was restarted twice, once for each."""
        core = Core(policy(gather_s=2.0), north_h800=(8, 4, 8))
        job = core.submit(size(H, 4))
        core.down("north-h800-1")
        core.now_us += 500_000
        core.down("north-h800-2")
        core.wait(5)
        attempt = core.state.attempts[job.attempt]
        assert (job.state, attempt.generation, job.spent) == ("running", 2, {"infrastructure": 1})
        assert not {"north-h800-1", "north-h800-2"} & set(core.held(job))

    def test_spares_of_the_same_rack_come_first(self):
        """A spare of the dead node's rack replaces it, though nodes of other racks are free as well."""
        core = Core(policy(spares={"north": 2}), north_h800=(8, 4, 8))
        job = core.submit(size(H, 2))
        assert core.held(job) == ("north-h800-3", "north-h800-4")
        core.down("north-h800-3")
        core.wait(1)
        assert core.held(job) == ("north-h800-1", "north-h800-4")

    def test_a_blink_costs_nothing(self):
        """A node that answers again while failures are gathered leaves the job alone."""
        core = Core(policy(gather_s=2.0), north_h800=4)
        job = core.submit(size(H, 4))
        core.down("north-h800-1")
        core.send(NodeSeen, node="north-h800-1", observed="up")
        core.wait(5)
        assert (job.state, core.state.attempts[job.attempt].generation, job.spent) == ("running", 1, {})


class TestMisleadingWhyPending:
    def test_fragmentation_is_not_called_lack_of_capacity(self):
        """71 nodes were free, no spine had 64, and the job read "insufficient resources"."""
        core = Core(north_h800=(8, 2, 4))
        jobs = [core.submit(size(H, 2, "rack")) for _ in range(4)]
        core.end(jobs[0]), core.end(jobs[2])
        why = core.why(core.submit(size(H, 4, "spine")))
        assert (why.code, why.needs[0].free, why.needs[0].largest) == ("FRAGMENTATION", 4, 2)

    def test_spares_are_named(self):
        """Idle nodes that are spares are called spares, not busy."""
        core = Core(policy(spares={"north": 2}), north_h800=4)
        assert core.why(core.submit(size(H, 3))).code == "SPARES"

    def test_figures_of_one_code_are_not_told_beside_another(self):
        """What a job lacked by its quota was told with the figures of a reclaim that the pass had noted before."""
        core = Core(policy(queue("q", guarantee={"h800": 8}, borrow={"*": 0})), north_h800=4)
        core.submit(size(H, 1), queue="q")
        told = judge(
            core.state, core.submit(size(H, 1), queue="q"), Blocked("RECLAIM_CAP", "freeing them would stop 376")
        )
        assert (told.code, told.detail) == ("NO_QUOTA", "")


class TestRequeueOnTimeOut:
    def test_a_job_over_its_time_limit_ends(self):
        """A job that ran into its time limit was queued again, and ran into it again, for ever."""
        core = Core(north_h800=4)
        job = core.submit(size(H, 4), time_limit_us=HOUR_US)
        core.wait(3601)
        assert (job.state, job.reason, job.attempts) == ("ended", "time_limit", 1)


class TestImpossibleRequests:
    def test_more_than_the_fleet_owns_is_refused(self):
        """A request for more nodes than exist waited for weeks."""
        core = Core(north_h800=4)
        job = core.submit(size(H, 5))
        assert (job.state, job.reason) == ("ended", "never_fits")
        assert "the largest site has 4" in job.text

    def test_more_than_the_queue_may_hold_is_refused(self):
        """A request over the queue's guarantee and borrowing limit is refused with the figures."""
        core = Core(policy(queue("q", guarantee={"h800": 8}, borrow={"*": 8})), north_h800=8)
        job = core.submit(size(H, 4), queue="q")
        assert (job.reason, "may hold 16" in job.text) == ("never_fits", True)

    def test_a_topology_that_does_not_exist_is_refused(self):
        """Six nodes in one rack of four never fit, busy or not."""
        core = Core(north_h800=(8, 4, 8))
        assert core.submit(size(H, 6, "rack")).reason == "never_fits"

    def test_busy_is_not_impossible(self):
        """What would fit an empty fleet is queued."""
        core = Core(north_h800=4)
        core.submit(size(H, 4))
        assert core.submit(size(H, 4)).state == "waiting"


class TestReplacementOnTheBadHost:
    def test_a_job_never_gets_its_bad_host_again(self):
        """The replacement pod went to the node that had just failed it, twice."""
        core = Core(policy(breaker=Breaker(share=1.0)), north_h800=(5, 5, 5))
        job = core.submit(size(H, 4))
        core.incident(job, "cordon_replace", ["north-h800-2"])
        core.wait(5)
        assert "north-h800-2" not in core.held(job)
        core.send(TrustChanged, node="north-h800-2", trust="ok")
        core.down("north-h800-1")
        core.wait(60)
        assert (job.state, core.why(job).code) == ("waiting", "NODES_DOWN")

    def test_the_breaker_stops_a_detector_gone_mad(self):
        """A detector blamed node after node; at most the set share is cordoned."""
        core = Core(policy(breaker=Breaker(share=0.1)), north_h800=(20, 20, 20))
        for number in range(1, 9):
            core.send(TrustChanged, node=f"north-h800-{number}", trust="quarantined", evidence="bad detector")
        assert core.state.nodes.trust.count("quarantined") == 2


class TestStaleEvents:
    def test_evidence_acts_once(self):
        """One crash report, delivered again and again, restarted the job for ever."""
        core = Core(north_h800=4)
        job = core.submit(size(H, 4))
        for _ in range(5):
            core.incident(job, "retry", evidence="xid 94 at 14:02")
            core.wait(60)
        assert (core.state.attempts[job.attempt].generation, job.spent) == (2, {"infrastructure": 1})

    def test_old_generations_are_refused(self):
        """A report about a generation that is over changes nothing."""
        core = Core(north_h800=4)
        job = core.submit(size(H, 4))
        core.incident(job, "retry")
        core.run()
        core.send(AttemptEnded, attempt=job.attempt, generation=1, outcome="user", evidence="late")
        assert (job.state, "generation 1 is over" in core.refusals()[-1]) == ("running", True)

    def test_retries_have_an_end_and_wait_longer_each_time(self):
        """A job whose ranks fail every time ends after its retries, the later ones after a back-off."""
        core = Core(policy(retries=Retries(infrastructure=3, backoff_s=10.0)), north_h800=4)
        job = core.submit(size(H, 4))
        waits = []
        for _ in range(4):
            began_us = core.now_us
            core.end(job, "infrastructure")
            while job.state not in ("running", "ended"):
                core.wait(1)
            waits.append((core.now_us - began_us) // 1_000_000)
        assert (job.reason, waits[0]) == ("failed_infrastructure", 0)
        assert 10 <= waits[1] <= 13 < waits[2] <= 26

    def test_user_code_is_not_retried_unless_asked(self):
        """A script that exits 1 ends the job; with one user retry it runs twice."""
        core = Core(north_h800=4)
        once, twice = core.submit(size(H, 1)), core.submit(size(H, 1), user_retries=1)
        core.end(once, "user"), core.end(twice, "user")
        assert (once.reason, twice.attempts) == ("failed_user", 2)

    def test_late_options_do_not_disturb_a_running_job(self):
        """The planner's second answer leaves a running attempt at its rung."""
        core = Core(north_h800=4)
        job = core.submit(size(H, 4))
        core.send(OptionsOffered, job=job.id, options=(option(size(H, 2)),))
        assert (job.state, len(core.held(job))) == ("running", 4)
