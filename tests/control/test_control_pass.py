"""The pass: what starts, where, in which order, and what is held or said for the rest."""

from argosy.contracts.event import IntentChanged, PolicyChanged
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import Window
from support.cores import Core, option, policy, queue, size

H, A = "north/h800", "south/a910"
HOUR_US = 3_600_000_000


class TestStart:
    def test_a_job_gets_its_nodes_and_runs(self):
        """A job that fits is launched on whole nodes of its pool."""
        core = Core(north_h800=8)
        job = core.submit(size(H, 4))
        assert (job.state, len(core.held(job))) == ("running", 4)

    def test_the_smallest_domain_is_taken(self):
        """A gang that fits into a rack lies in one, and the rack that was broken into already goes first."""
        core = Core(north_h800=(12, 4, 12))
        core.submit(size(H, 1))
        assert core.held(core.submit(size(H, 3))) == ("north-h800-2", "north-h800-3", "north-h800-4")

    def test_a_gang_is_never_split_over_its_level(self):
        """Four nodes that must share a rack wait although four are free in two racks."""
        core = Core(north_h800=(8, 4, 8))
        for _ in range(2):
            core.submit(size(H, 2, "rack"))
            core.submit(size(H, 2, "rack"))
        first = list(core.state.jobs.values())
        core.end(first[0])
        core.end(first[2])
        job = core.submit(size(H, 4, "rack"))
        assert (job.state, core.why(job).code) == ("waiting", "FRAGMENTATION")
        assert "topology site" in core.why(job).change

    def test_the_objective_chooses_the_chips(self):
        """The fastest option is taken first, or the cheapest if the job says so."""
        core = Core(north_h800=4, south_a910=4)
        both = (option(size(H, 4, rate=9, cost=5.0), name="fast"), option(size(A, 4, rate=4, cost=1.0), name="cheap"))
        assert core.held(core.submit(options=both, goal="cheapest"))[0].startswith("south")
        assert core.held(core.submit(options=both, goal="fastest"))[0].startswith("north")

    def test_a_deadline_takes_the_cheapest_that_meets_it(self):
        """With a deadline the cheapest option that is fast enough wins over the fastest and over the too slow."""
        core = Core(north_h800=8, south_a910=4)
        sizes = (size(H, 8, rate=100, cost=9.0), size(H, 4, rate=50, cost=5.0), size(A, 4, rate=1, cost=1.0))
        job = core.submit(*sizes, goal="deadline", deadline_us=HOUR_US, work_tokens=3600 * 40)
        assert len(core.held(job)) == 4
        assert core.held(job)[0].startswith("north")

    def test_mixed_and_cross_site_options_start_whole(self):
        """An option with parts in two sites gets all its nodes at once or none."""
        core = Core(north_h800=4, south_a910=4)
        parts = (Part(chip_class=H, nodes=2), Part(chip_class=A, nodes=3))
        mixed = Option(name="mixed", job="", ladder=(Size(parts=parts, tokens_per_second=1.0, efficiency=1.0),))
        first = core.submit(options=(mixed,))
        second = core.submit(options=(mixed,))
        assert (len(core.held(first)), second.state) == (5, "waiting")
        assert core.why(second).code == "NO_CAPACITY"

    def test_parts_of_one_pool_do_not_share_nodes(self):
        """Two parts in the same pool take different nodes."""
        core = Core(north_h800=(8, 4, 8))
        parts = (Part(chip_class=H, nodes=3, topology="rack"), Part(chip_class=H, nodes=3, topology="rack"))
        twice = Option(name="twice", job="", ladder=(Size(parts=parts, tokens_per_second=1.0, efficiency=1.0),))
        assert len(set(core.held(core.submit(options=(twice,))))) == 6


class TestOrder:
    def test_entitled_goes_before_borrowing(self):
        """Of two waiting jobs the one within its queue's guarantee starts first, though younger."""
        rules = policy(queue("own", guarantee={"h800": 32}), queue("poor"))
        core = Core(rules, north_h800=4)
        filler = core.submit(size(H, 4), queue="own")
        poor = core.submit(size(H, 4), queue="poor")
        own = core.submit(size(H, 4), queue="own", priority=-5)
        core.end(filler)
        assert (own.state, poor.state) == ("running", "waiting")

    def test_priority_goes_before_age(self):
        """In one queue the higher priority starts first."""
        core = Core(north_h800=4)
        filler, low = core.submit(size(H, 4)), core.submit(size(H, 4))
        high = core.submit(size(H, 4), priority=5)
        core.end(filler)
        assert (high.state, low.state) == ("running", "waiting")

    def test_the_queue_furthest_below_its_share_goes_first(self):
        """A queue of weight 3 gets three nodes for each one of a queue of weight 1."""
        core = Core(policy(queue("a", weight=3.0), queue("b")), north_h800=8)
        jobs = [core.submit(size(H, 1), queue=q, run=False) for _ in range(8) for q in ("a", "b")]
        core.run()
        running = [job.claim.queue for job in jobs if job.state == "running"]
        assert (running.count("a"), running.count("b")) == (6, 2)

    def test_past_use_counts_and_fades(self):
        """Who used the fleet alone for a day comes second the next hour, and first again once that faded."""
        core = Core(policy(queue("a"), queue("b"), half_life_s=3600.0), north_h800=4)
        core.end(core.submit(size(H, 4), queue="a")) if core.wait(1) else None
        heavy = core.submit(size(H, 4), queue="a")
        core.wait(3600)
        a, b = core.submit(size(H, 4), queue="a"), core.submit(size(H, 4), queue="b")
        core.end(heavy)
        assert (b.state, a.state) == ("running", "waiting")


class TestExplain:
    def test_every_waiting_job_has_a_reason(self):
        """After a pass no waiting job is without a code and a sentence."""
        core = Core(north_h800=4)
        jobs = [core.submit(size(H, n)) for n in (3, 2, 4, 1, 1)]
        waiting = [core.why(job) for job in jobs if job.state != "running"]
        assert len(waiting) == 3
        assert all(why.code != "NEXT_PASS" and why.text and why.needs for why in waiting)

    def test_blockers_and_time_are_told(self):
        """A gang that waits for a job with a time limit hears its name and when it starts at the latest."""
        core = Core(north_h800=4)
        core.submit(size(H, 4), name="first", time_limit_us=HOUR_US)
        why = core.why(core.submit(size(H, 4)))
        assert (why.blockers[0].name, why.eta_p90_us) == ("first", HOUR_US)

    def test_quota_and_capacity_are_told_apart(self):
        """A queue at its limit reads NO_QUOTA with the figures although nodes are free."""
        core = Core(policy(queue("q", guarantee={"h800": 8}, borrow={"*": 8})), north_h800=8)
        core.submit(size(H, 2), queue="q")
        why = core.why(core.submit(size(H, 1), queue="q"))
        assert (why.code, "may hold 16" in why.text) == ("NO_QUOTA", True)

    def test_a_likely_start_comes_before_the_latest(self):
        """Where jobs of a queue end at half of their limits, a gang hears that it starts likely then, at last later."""
        core = Core(north_h800=4)
        for _ in range(3):
            early = core.submit(size(H, 4), time_limit_us=HOUR_US)
            core.wait(1800).end(early)
        core.submit(size(H, 4), time_limit_us=HOUR_US)
        began_us = core.now_us
        why = core.why(core.submit(size(H, 4)))
        assert (why.eta_p50_us, why.eta_p90_us) == (began_us + HOUR_US // 2, began_us + HOUR_US)


class TestPriority:
    def test_higher_priority_takes_from_lower_within_the_guarantee(self):
        """A queue's guarantee is all in use by its own low jobs: a higher one has as many stopped as it needs."""
        core = Core(policy(queue("q", guarantee={"h800": 32})), north_h800=(4, 4, 4))
        low = [core.submit(size(H, 1), queue="q") for _ in range(4)]
        high = core.submit(size(H, 2), queue="q", priority=5)
        assert (high.state, [job.state for job in low].count("running")) == ("running", 2)

    def test_equal_priority_takes_nothing(self):
        """Within a queue nobody is stopped for a job of the same priority."""
        core = Core(policy(queue("q", guarantee={"h800": 32})), north_h800=(4, 4, 4))
        first, second = core.submit(size(H, 4), queue="q"), core.submit(size(H, 4), queue="q")
        assert (first.state, second.state) == ("running", "waiting")

    def test_what_was_borrowed_is_not_taken_for_priority(self):
        """A queue that holds more than it owns stops nobody of its own for a higher priority."""
        core = Core(policy(queue("q", guarantee={"h800": 16})), north_h800=(4, 4, 4))
        low = core.submit(size(H, 4), queue="q")
        high = core.submit(size(H, 2), queue="q", priority=5)
        assert (low.state, high.state) == ("running", "waiting")


class TestNormalisedQuota:
    RULES = policy(queue("q", guarantee={"normalised": 16}, borrow={"normalised": 0}), worth={"a910": 0.5})

    def test_each_chip_counts_by_its_worth(self):
        """16 normalised chips are two nodes of a chip worth 1, or four of one worth a half, in any mix."""
        core = Core(self.RULES, north_h800=8, south_a910=8)
        first, second = core.submit(size(A, 2), queue="q"), core.submit(size(H, 1), queue="q")
        third = core.submit(size(A, 1), queue="q")
        assert (first.state, second.state, third.state) == ("running", "running", "waiting")
        core.end(second)
        assert third.state == "running"

    def test_the_reason_names_normalised_chips(self):
        """What is over a normalised limit reads NO_QUOTA with normalised figures."""
        core = Core(self.RULES, north_h800=8, south_a910=8)
        core.submit(size(H, 2), queue="q")
        why = core.why(core.submit(size(A, 1), queue="q"))
        assert (why.code, "16 normalised, 16 are held, this job asks for 4" in why.text) == ("NO_QUOTA", True)


class TestGrowth:
    def test_an_elastic_job_grows_onto_a_further_pool(self):
        """A job that runs on one kind takes nodes of another beside it, once its option with both fits."""
        core = Core(policy(queue("q")), north_h800=4, south_a910=4)
        parts = (Part(chip_class=H, nodes=4), Part(chip_class=A, nodes=4))
        mixed = Option(name="mixed", job="", ladder=(Size(parts=parts, tokens_per_second=8.0, efficiency=1.0),))
        first = core.submit(size(A, 4), queue="q")
        job = core.submit(options=(mixed, option(size(H, 4), name="one")), queue="q", elastic=True)
        before = core.held(job)
        core.end(first).wait(1300)
        assert (len(before), len(core.held(job)), set(before) <= set(core.held(job))) == (4, 8, True)

    def test_an_elastic_job_grows_into_what_is_left(self):
        """A job that started small takes the nodes that fall free, in place, once nobody waits for them."""
        core = Core(policy(queue("q")), north_h800=(8, 4, 8))
        first = core.submit(size(H, 4), queue="q")
        job = core.submit(size(H, 8), size(H, 4), queue="q", elastic=True)
        before = core.held(job)
        core.end(first).wait(1300)
        assert (len(core.held(job)), set(before) <= set(core.held(job))) == (8, True)

    def test_nobody_grows_while_somebody_waits_for_the_pool(self):
        """Free nodes that a waiting gang could use are not taken by growth."""
        core = Core(policy(queue("q")), north_h800=(8, 4, 8))
        first = core.submit(size(H, 4), queue="q")
        job = core.submit(size(H, 8), size(H, 4), queue="q", elastic=True)
        core.submit(size(H, 6), queue="q")
        core.end(first).wait(1300)
        assert len(core.held(job)) == 4


class TestMaintenance:
    def test_jobs_start_only_where_they_end_before_the_window(self):
        """A short job starts on a rack that is due for maintenance, a long one elsewhere or not at all."""
        window = Window(site="north", rack=0, from_us=HOUR_US, to_us=2 * HOUR_US)
        core = Core(policy(maintenance=(window,)), north_h800=(4, 4, 4))
        long = core.submit(size(H, 1), time_limit_us=2 * HOUR_US)
        assert core.why(long).code == "MAINTENANCE"
        assert core.submit(size(H, 1), time_limit_us=HOUR_US // 2).state == "running"
        core.wait(7300)
        assert long.state == "running"

    def test_what_runs_when_the_window_begins_moves(self):
        """A job without a time limit moves to other nodes of its domain, and nothing is on the rack in the window."""
        window = Window(site="north", rack=0, from_us=48 * HOUR_US, to_us=49 * HOUR_US)
        core = Core(policy(maintenance=(window,)), north_h800=(8, 4, 8))
        job = core.submit(size(H, 4))
        core.wait(48 * 3600 + 1)
        assert job.state == "running"
        assert {name.rsplit("-", 1)[1] for name in core.held(job)} == set("5678")
        assert job.spent == {}


class TestQueues:
    def test_a_closed_queue_takes_nothing_and_finishes_what_it_has(self):
        """Closing refuses new jobs with a reason and lets waiting ones start; draining lets none start."""
        core = Core(policy(queue("q")), north_h800=(4, 4, 4))
        first, second = core.submit(size(H, 4), queue="q"), core.submit(size(H, 4), queue="q")
        core.send(PolicyChanged, policy=policy(queue("q", state="closed")))
        assert core.submit(size(H, 1), queue="q") is None
        assert "queue q is closed" in core.refusals()[-1]
        core.send(PolicyChanged, policy=policy(queue("q", state="draining")))
        core.end(first)
        assert core.why(second).code == "QUEUE_DRAINING"

    def test_an_unknown_queue_is_refused_with_the_nearest(self):
        """A mistyped queue is answered with the one that was meant."""
        core = Core(policy(queue("research")), north_h800=1)
        core.submit(size(H, 1), queue="reserch")
        assert "did you mean research?" in core.refusals()[-1]

    def test_a_queue_with_jobs_cannot_be_removed(self):
        """A policy without a queue that jobs are in is refused whole."""
        core = Core(policy(queue("q")), north_h800=1)
        core.submit(size(H, 1), queue="q")
        core.send(PolicyChanged, policy=policy(queue("other")))
        assert core.state.policy.queues[0].name == "q"


class TestDrain:
    def test_a_drained_node_is_empty_by_its_deadline(self):
        """Cordoned at once, emptied at the deadline, the job goes on elsewhere without losing a retry."""
        core = Core(north_h800=(8, 4, 8))
        job = core.submit(size(H, 2))
        name = core.held(job)[0]
        core.send(IntentChanged, nodes=(name,), intent="draining", deadline_us=core.now_us + 60_000_000)
        core.wait(30)
        assert name in core.held(job)
        core.wait(31)
        assert (name in core.held(job), job.state, job.spent) == (False, "running", {})
