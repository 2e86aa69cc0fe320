"""What breakers found: each test is a way in which the core went wrong once, or an odd thing that it must survive."""

from dataclasses import replace

import pytest

from argosy.contracts.command import Stop
from argosy.contracts.errors import BadInputError
from argosy.contracts.event import (
    AttemptEnded,
    FleetDescribed,
    IntentChanged,
    JobSubmitted,
    NodeSeen,
    NodesRetired,
    OptionsOffered,
    PassDue,
    PolicyChanged,
    StopAsked,
    TimeReached,
    TrustChanged,
)
from argosy.contracts.fencing import Fence, Stamp
from argosy.contracts.policy import Breaker, Policy, Queue, Round, Window
from argosy.contracts.request import Claim, Pool
from argosy.control import log
from argosy.control.snapshot import restore, seal, snapshot, unseal
from argosy.control.state import State
from support.cores import Core, option, policy, queue, size

H, A = "north/h800", "south/a910"
HOUR_US = 3_600_000_000
MINUTE_US = 60_000_000


def turns(order="fair", every_s=360.0, **more):
    """Make a queue whose jobs take turns."""
    return queue("turns", order=order, round=Round(every_s=every_s), **more)


class TestRetiredNodes:
    def test_a_job_outlives_the_retirement_of_its_node(self):
        """The retired node was freed before failures were gathered; filling its place left it a second time."""
        core = Core(policy(gather_s=2.0), north_h800=(4, 4, 4))
        job = core.submit(size(H, 2))
        gone = core.held(job)[0]
        core.send(NodesRetired, nodes=(gone,))
        core.wait(5)
        assert (job.state, gone in core.held(job)) == ("running", False)

    def test_a_retired_node_that_dies_lets_its_job_go(self):
        """Its death was refused as that of an unknown node, and the job stopped for ever."""
        core = Core(policy(gather_s=0.0, lease_s=30.0), north_h800=(2, 2, 2))
        job = core.submit(size(H, 2), run=False)
        core.run()
        core.send(NodesRetired, nodes=("north-h800-1",))
        core.inbox = [c for c in core.inbox if "north-h800-1" not in getattr(c, "nodes", ())]
        core.down("north-h800-1")
        core.wait(60)
        assert (job.state, core.state.nodes.holder[0]) == ("waiting", "")


class TestNotice:
    def lent(self):
        """Make a borrower under notice of a minute."""
        rules = policy(queue("own", guarantee={"h800": 32}, notice_s=60.0), queue("poor"))
        core = Core(rules, north_h800=(4, 4, 4))
        poor = core.submit(size(H, 4), queue="poor")
        core.submit(size(H, 4), queue="own")
        assert poor.state == "stopping"
        return core, poor

    def test_a_job_that_is_done_under_notice_does_not_run_again(self):
        """It ended by itself within the notice; the report was refused and it ran once more."""
        core, poor = self.lent()
        core.send(AttemptEnded, attempt=poor.attempt, generation=1, outcome="done")
        core.wait(100)
        assert (poor.state, poor.reason) == ("ended", "done")

    def test_who_stops_a_job_under_notice_need_not_wait(self):
        """The owner asks to stop it: it leaves at once and does not come back."""
        core, poor = self.lent()
        core.send(StopAsked, job=poor.id)
        core.run()
        assert (poor.state, poor.reason) == ("ended", "stopped")

    def test_an_ending_is_not_overwritten(self):
        """A job that was done stays done though somebody asks to stop it while its nodes are being freed."""
        core = Core(north_h800=1)
        job = core.submit(size(H, 1))
        core.send(AttemptEnded, attempt=job.attempt, generation=1, outcome="done")
        core.send(StopAsked, job=job.id)
        core.run()
        assert job.reason == "done"

    def test_a_blink_does_not_shorten_the_notice(self):
        """A node that answers again is told the same time to leave, not to leave now."""
        core, poor = self.lent()
        core.send(NodeSeen, node="north-h800-1", observed="suspect")
        record = core.send(NodeSeen, node="north-h800-1", observed="up")
        assert [c.by_us for c in record.commands if isinstance(c, Stop)] == [MINUTE_US]
        assert poor.state == "stopping"


class TestNodesThatComeAndGo:
    def test_a_node_left_already_takes_nobody_along(self):
        """A job had moved off a bad node; when that died, the job recovered from a fault that was not its own."""
        core = Core(policy(breaker=Breaker(share=1.0)), north_h800=(4, 4, 4))
        job = core.submit(size(H, 2))
        bad = core.held(job)[0]
        core.incident(job, "cordon_replace", [bad])
        core.send(NodeSeen, node=bad, observed="suspect")
        core.wait(1)
        core.down(bad)
        assert (job.state, job.spent) == ("running", {"infrastructure": 1})

    def test_a_launch_that_a_blink_interrupted_is_still_a_launch(self):
        """A node blinked while ranks started; the job was taken to run though nobody had said so."""
        core = Core(policy(gather_s=2.0, prepare_s=100.0), north_h800=2)
        job = core.submit(size(H, 2), run=False)
        core.send(PassDue)
        core.inbox.clear()
        core.down("north-h800-1")
        core.send(NodeSeen, node="north-h800-1", observed="up")
        core.now_us += 3_000_000
        core.send(TimeReached)
        assert job.state == "preparing"
        core.run()
        assert job.state == "running"

    def test_a_launch_that_a_blink_interrupted_still_has_a_deadline(self):
        """It came while the node was gone and was passed over; ranks that never began were waited for without end."""
        core = Core(policy(gather_s=50.0, prepare_s=100.0), north_h800=2)
        job = core.submit(size(H, 2), run=False)
        core.send(PassDue)
        core.inbox.clear()
        for second in range(5, 305, 5):
            core.now_us = second * 1_000_000
            if second in (80, 110):
                core.send(NodeSeen, node="north-h800-1", observed="down" if second == 80 else "up")
            core.send(TimeReached)
            core.inbox.clear()
        assert core.state.attempts[job.attempt].generation == 2

    def test_a_shorter_lease_does_not_shorten_the_one_that_is_held(self):
        """A node was cut off with a lease of 90 s, then 5 s were the rule: others got its chips under its ranks."""
        core = Core(policy(lease_s=90.0), north_h800=1)
        job = core.submit(size(H, 1))
        core.send(PolicyChanged, policy=policy(lease_s=5.0))
        core.down("north-h800-1")
        core.wait(89)
        assert core.state.nodes.holder[0] == job.attempt != ""
        core.wait(10)
        assert core.state.nodes.holder[0] == ""
        assert snapshot(restore(snapshot(core.state))) == snapshot(core.state)

    def test_a_drain_without_a_deadline_waits(self):
        """Another node's deadline came, and jobs on nodes that were to wait for them were moved as well."""
        core = Core(north_h800=(8, 4, 8))
        patient, other = core.submit(size(H, 1)), core.submit(size(H, 1))
        mine, theirs = core.held(patient)[0], core.held(other)[0]
        core.send(IntentChanged, nodes=(mine,), intent="draining")
        core.send(IntentChanged, nodes=(theirs,), intent="draining", deadline_us=core.now_us + MINUTE_US)
        core.wait(61)
        assert (core.held(patient), theirs in core.held(other)) == ((mine,), False)

    def test_the_last_deadline_counts(self):
        """A node was drained, opened and drained with a later deadline; the first one still emptied it."""
        core = Core(north_h800=(8, 4, 8))
        job = core.submit(size(H, 1))
        name = core.held(job)[0]
        for intent, minutes in (("draining", 1), ("open", None), ("draining", 10)):
            deadline_us = None if minutes is None else core.now_us + minutes * MINUTE_US
            core.send(IntentChanged, nodes=(name,), intent=intent, deadline_us=deadline_us)
        core.wait(120)
        assert core.held(job) == (name,)

    def test_a_bad_host_is_not_taken_back_by_reclaim(self):
        """The job's bad host passed its checks and was lent; reclaim freed it for the very job it had failed."""
        rules = policy(queue("own", guarantee={"h800": 16}), queue("poor"), breaker=Breaker(share=1.0))
        core = Core(rules, north_h800=(3, 3, 3))
        job = core.submit(size(H, 2), queue="own")
        bad = core.held(job)[0]
        core.incident(job, "cordon_replace", [bad])
        core.wait(1)
        core.send(StopAsked, job=core.submit(size(H, 1), queue="poor").id)
        core.send(TrustChanged, node=bad, trust="ok")
        borrower = core.submit(size(H, 1), queue="poor")
        assert core.held(borrower) == (bad,)
        core.down(core.held(job)[0])
        core.wait(100)
        assert (borrower.state, bad in core.held(job)) == ("running", False)


class TestTurns:
    def test_a_queue_at_its_limit_does_not_have_passes_run_for_ever(self):
        """Nodes were held for a job that its quota forbade, given up by the pass, and held again without end."""
        rules = policy(turns(guarantee={"h800": 8}), queue("own", guarantee={"h800": 24}, lend={"*": 0}))
        core = Core(rules, north_h800=(4, 4, 4))
        jobs = [core.submit(size(H, 1), queue="turns", work_tokens=10**6) for _ in range(3)]
        core.wait(3600)
        assert [job.state for job in jobs].count("running") == 1
        assert all(job.attempts for job in jobs)

    def test_announced_maintenance_does_not_idle_nodes(self):
        """A window of next month was announced, and a queue that takes turns got no node any more."""
        window = Window(site="north", from_us=720 * HOUR_US, to_us=721 * HOUR_US)
        core = Core(policy(turns(), maintenance=(window,)), north_h800=2)
        assert core.submit(size(H, 2), queue="turns").state == "running"

    def test_maintenance_within_the_round_is_minded(self):
        """A node whose window begins before the next round ends is not dealt."""
        window = Window(site="north", from_us=5 * MINUTE_US, to_us=HOUR_US)
        core = Core(policy(turns(), maintenance=(window,)), north_h800=2)
        job = core.submit(size(H, 1), queue="turns")
        assert job.state == "waiting"
        core.wait(3600)
        assert job.state == "running"

    def test_a_round_is_not_used_up_by_those_who_make_way(self):
        """While those of the last deal were under a long notice, the next round began and dealt nothing."""
        core = Core(policy(turns(notice_s=400.0)), north_h800=1)
        for _ in range(2):
            core.submit(size(H, 1), queue="turns", work_tokens=10**6)
        core.wait(400)
        assert core.state.rounds["turns"] == 720_000_000
        core.wait(370)
        assert core.state.rounds["turns"] == 1_120_000_000

    def test_turns_count_together_in_a_time_limit(self):
        """Each turn began the limit anew, and a job without an end ran for ever."""
        core = Core(policy(turns(every_s=360.0)), north_h800=1)
        jobs = [core.submit(size(H, 1), queue="turns", time_limit_us=HOUR_US) for _ in range(2)]
        core.wait(2 * 3600 + 2 * 360)
        assert [job.reason for job in jobs] == ["time_limit", "time_limit"]
        assert all(job.attempts > 1 for job in jobs)

    @pytest.mark.slow
    def test_a_thousand_queues_that_take_turns(self):
        """Jobs are sorted to their queues once, not once for each queue."""
        names = [f"q{number}" for number in range(1000)]
        core = Core(policy(*(queue(name, order="fair") for name in names)), check=False, north_h800=(40, 4, 40))
        jobs = [core.submit(size(H, 1), queue=name, run=False) for name in names]
        core.run()
        assert sum(job.state == "running" for job in jobs) == 40


class TestOptions:
    def test_options_that_come_too_late_are_asked_for_again(self):
        """An answer that had gone out of date on its way ended the job as one that never fits."""
        core = Core(north_h800=2)
        core.wait(100)
        core.send(JobSubmitted, claim=Claim(name="late", queue="default"))
        job = core.state.jobs[f"job-{core.state.seq}"]
        core.inbox.clear()
        stale = replace(option(size(H, 1)), valid_until_us=core.now_us - 1)
        core.send(OptionsOffered, job=job.id, options=(stale,))
        assert job.state == "waiting"
        core.wait(31)
        assert any(getattr(c, "job", "") == job.id for record in core.records[-1:] for c in record.commands)

    def test_more_normalised_chips_than_a_queue_may_hold_never_fit(self):
        """A limit in normalised chips was not looked at when a job came; it waited for ever."""
        rules = policy(queue("q", guarantee={"normalised": 16}, borrow={"normalised": 0}))
        job = Core(rules, north_h800=4).submit(size(H, 3), queue="q")
        assert (job.reason, "may hold 16" in job.text) == ("never_fits", True)

    def test_what_a_queue_owns_by_kind_always_fits(self):
        """A parent's limit in normalised chips does not forbid what a child owns by kind."""
        parent = queue("p", guarantee={"normalised": 8}, borrow={"normalised": 0})
        core = Core(policy(parent, queue("c", parent="p", guarantee={"h800": 32})), north_h800=4)
        assert core.submit(size(H, 4), queue="c").state == "running"


NAN, INF = float("nan"), float("inf")


class TestIntake:
    @pytest.mark.parametrize(
        ("claim", "size_of"),
        [
            ({"priority": 2**50}, {}),
            ({"time_limit_us": 0}, {}),
            ({"time_limit_us": 2**63}, {}),
            ({"work_tokens": -1}, {}),
            ({"goal": "soonest"}, {}),
            ({"name": "\ud800"}, {}),
            ({}, {"rate": NAN}),
            ({}, {"rate": INF}),
            ({}, {"cost": INF}),
            ({}, {"nodes": 10**30}),
        ],
    )
    def test_what_cannot_be_logged_or_counted_is_not_taken_in(self, claim, size_of):
        """A number without an end was logged as null, and the log could not be read any more; nothing may change."""
        core = Core(north_h800=2)
        before = snapshot(core.state)
        with pytest.raises(BadInputError, match="not taken in"):
            core.submit(size(H, **({"nodes": 1} | size_of)), **({"name": "job"} | claim))
        assert snapshot(core.state) == before
        assert core.submit(size(H, 1)).state == "running"

    @pytest.mark.parametrize(
        "queues",
        [
            (),
            (Queue(name=""),),
            (Queue(name="a"), Queue(name="a")),
            (Queue(name="a", parent="b"), Queue(name="b", parent="c"), Queue(name="c", parent="b")),
            (Queue(name="a", parent="nobody"),),
            tuple(Queue(name=f"q{n}", parent=f"q{n + 1}" if n < 32 else "") for n in range(33)),
            (Queue(name="a", weight=0.0),),
            (Queue(name="a", weight=NAN),),
            (Queue(name="a", guarantee={"h": -8}),),
            (Queue(name="a", borrow={"*": 10**30}),),
            (Queue(name="a", order="fair", round=Round(every_s=0.0)),),
            (Queue(name="a", state="ajar"),),
        ],
    )
    def test_a_policy_that_makes_no_tree_is_not_taken_in(self, queues):
        """Circles, missing parents, weights of nothing and rounds without length never reach the pass."""
        core = Core(north_h800=1)
        with pytest.raises(BadInputError, match="not taken in"):
            core.send(PolicyChanged, policy=Policy(queues=queues))

    def test_a_chip_kind_that_is_a_word_of_the_policy_is_not_taken_in(self):
        """A pool of chips named `normalised` would be counted twice."""
        pool = Pool(name="p", kind="normalised", site="s", chips_per_node=8)
        with pytest.raises(BadInputError, match="normalised"):
            Core(north_h800=1).send(FleetDescribed, pools=(pool,), nodes=())

    def test_an_outcome_that_does_not_exist_is_refused(self):
        """A misspelled outcome was taken for a fault of the machines."""
        core = Core(north_h800=1)
        job = core.submit(size(H, 1))
        core.send(AttemptEnded, attempt=job.attempt, generation=1, outcome="finished")
        assert (job.state, "must be one of done" in core.refusals()[-1]) == ("running", True)

    def test_a_request_for_a_million_chips_is_refused_with_the_figure(self):
        """It ends at once as one that never fits."""
        job = Core(north_h800=4).submit(size(H, 125_000))
        assert (job.reason, "the largest site has 4" in job.text) == ("never_fits", True)

    def test_a_fleet_of_no_nodes_and_a_breaker_of_nothing(self):
        """Without nodes a job never fits; with a share of 0 no detector may cordon anything."""
        assert Core().submit(size(H, 1)).reason == "never_fits"
        core = Core(policy(breaker=Breaker(share=0.0)), north_h800=2)
        core.send(TrustChanged, node="north-h800-1", trust="quarantined", evidence="mad detector")
        assert core.state.nodes.trust == ["ok", "ok"]


class TestDamagedLogs:
    def lived(self):
        """Make a log of a few records, and the state they give."""
        core = Core(north_h800=2)
        core.end(core.submit(size(H, 1), name="a" * 40))
        return core, [log.write_record(record) for record in core.records]

    def test_every_flipped_bit_is_found(self):
        """A digit that changed on the disk gave another state and nobody noticed."""
        core, lines = self.lived()
        for data, read in ((lines[-3], log.read_record), (snapshot(core.state), restore)):
            for place in range(0, len(data), 7):
                flipped = bytearray(data)
                flipped[place] ^= 1 << place % 8
                with pytest.raises(BadInputError, match="not a"):
                    read(bytes(flipped))

    def test_a_line_cut_short_is_found(self):
        """Whatever is missing at the end, the line is no record."""
        _, lines = self.lived()
        for length in range(len(lines[-1])):
            with pytest.raises(BadInputError):
                log.read_record(lines[-1][:length])

    def test_lines_that_the_snapshot_covers_are_passed_over(self):
        """The server died between writing a snapshot and dropping the lines before it."""
        core, lines = self.lived()
        half = log.rebuild(snapshot(State()), lines[:5])
        assert snapshot(log.rebuild(snapshot(half), lines)) == snapshot(core.state)

    def test_a_doubled_line_is_an_error(self):
        """A record that is there twice belongs to no log that this core wrote."""
        _, lines = self.lived()
        with pytest.raises(ValueError, match="does not follow"):
            log.rebuild(snapshot(State()), [*lines[:4], lines[3], *lines[4:]])

    @pytest.mark.parametrize(
        ("wrote", "writes"),
        [
            (b'"trust":["ok","ok"]', b'"trust":["ok"]'),
            (b'"trust":', b'"belief":'),
            (b'"pool":[0,0]', b'"pool":[0,7]'),
            (b'"queue":"default"', b'"queue":"elsewhere"'),
        ],
    )
    def test_a_snapshot_whose_parts_do_not_belong_together_is_named(self, wrote, writes):
        """Somebody mended it by hand, checksum and all; it failed with a KeyError."""
        core = Core(north_h800=2)
        core.submit(size(H, 1))
        content = unseal(snapshot(core.state))
        assert content.count(wrote) == 1
        with pytest.raises(BadInputError, match="not a snapshot"):
            restore(seal(content.replace(wrote, writes)))

    def test_a_snapshot_from_before_leases_were_remembered_is_read(self):
        """What it lacks has a meaning: nobody holds a longer lease than the policy's."""
        before = unseal(snapshot(State())).replace(b',"leased_us":0', b"")
        assert b"leased" not in before
        assert restore(seal(before)).leased_us == 0

    def test_a_snapshot_of_another_version_is_named(self):
        """It says which version it is, whatever else is in it."""
        content = unseal(snapshot(State())).replace(b'"version":2,"seed"', b'"version":99,"seeds"', 1)
        with pytest.raises(BadInputError, match="snapshot of version 99"):
            restore(seal(content))


class TestFences:
    def test_a_new_term_is_remembered_from_a_refused_command(self):
        """An agent that heard of a new leader, in a command too old to obey, went on to obey the former one."""
        fence = Fence()
        fence.refusal(Stamp(term=1, attempt="a", generation=5))
        assert "generation 4" in fence.refusal(Stamp(term=2, attempt="a", generation=4))
        assert "term 1 is over" in fence.refusal(Stamp(term=1, attempt="a", generation=5))
