"""Laws that hold whatever happens: hypothesis draws submissions, ends, failures and waits; every step is checked."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.contracts.event import NodeSeen, PassDue, PolicyChanged, StopAsked
from argosy.contracts.option import Part, Size
from argosy.contracts.policy import Reclaim, Window
from argosy.control import lanes, reclaim, settle
from argosy.control.change import AttemptBegan, JobMoved, JobReclaimed, Reserved, TimerSet, Unreserved
from argosy.control.nodes import NodeTable
from argosy.control.order import Order
from argosy.control.reserve import Outlook, View, _free_times
from argosy.control.room import Room
from argosy.control.snapshot import snapshot
from argosy.control.victims import Candidates
from support.cores import Core, option, policy, queue, size
from support.plain_order import PlainOrder

H, A = "north/h800", "south/a910"
MINUTE_US = 60_000_000
QUEUES = ("own", "some", "poor", "strict", "norm")
EVICTIONS_MAX = 2

submissions = st.tuples(
    st.just("submit"),
    st.sampled_from(QUEUES),
    st.sampled_from((H, A)),
    st.integers(1, 5),
    st.sampled_from(("rack", "spine", "site")),
    st.integers(0, 2),
    st.sampled_from((None, 5, 60)),
    st.booleans(),
    st.sampled_from((None, None, 0, 1, 3)),
)
others = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("stop"), st.integers(0, 30)),
    st.tuples(st.just("down"), st.integers(0, 15)),
    st.tuples(st.just("up"), st.integers(0, 15)),
    st.tuples(st.just("wait"), st.integers(1, 4000)),
    st.tuples(st.just("window"), st.sampled_from(("north", "south")), st.integers(0, 3), st.integers(1, 300)),
)
lives = st.lists(st.one_of(submissions, submissions, others), min_size=5, max_size=40)


def rules(*windows):
    """Queues that own, own a little, borrow within a limit, keep strict order, and are counted in normalised chips."""
    return policy(
        queue("own", guarantee={"h800": 40, "a910": 16}),
        queue("some", guarantee={"h800": 16}, lend={"*": 8}),
        queue("poor", borrow={"*": 48}),
        queue("strict", order="strict"),
        queue("norm", guarantee={"normalised": 8}, borrow={"normalised": 24}),
        worth={"a910": 0.5},
        reclaim=Reclaim(evictions_at_most=EVICTIONS_MAX, cooldown_s=300.0),
        spares={"south": 1},
        maintenance=windows,
    )


def fresh(given_in=tuple):
    """Make a core of 16 nodes."""
    return Core(rules(), order=given_in, north_h800=(10, 4, 8), south_a910=(6, 3, 6))


def act(core, deed):
    """Do one drawn thing."""
    kind, *rest = deed
    jobs = list(core.state.jobs.values())
    names = list(core.state.nodes.number)
    if kind == "submit":
        name, pool, nodes, near, priority, minutes, elastic, elsewhere = rest
        limit_us = None if minutes is None else minutes * MINUTE_US
        counts = (nodes, nodes - 1, nodes // 2) if elastic else (nodes,)
        sizes = [size(pool, count, near) for count in counts if count]
        options = [option(*sizes, name="one")]
        if elsewhere is not None:
            # Beside it, or instead of it, nodes of the other kind.
            other = Part(chip_class=A if pool == H else H, nodes=max(1, elsewhere))
            parts = (*sizes[-1].parts, other) if elsewhere == 0 else (other,)
            options.append(option(Size(parts=parts, tokens_per_second=0.5, efficiency=1.0), name="two"))
        claim = {"queue": name, "priority": priority, "time_limit_us": limit_us, "elastic": elastic}
        core.submit(options=tuple(options), **claim)
    elif kind in ("end", "stop") and jobs:
        job = jobs[rest[0] % len(jobs)]
        if kind == "end" and job.state == "running":
            core.end(job)
        elif kind == "stop" and job.state != "ended":
            core.send(StopAsked, job=job.id)
    elif kind in ("down", "up"):
        core.send(NodeSeen, node=names[rest[0] % len(names)], observed=kind, fenced=kind == "up")
    elif kind == "wait":
        core.wait(rest[0])
    elif kind == "window":
        site, rack, minutes = rest
        begin_us = core.now_us + minutes * MINUTE_US
        window = Window(site=site, rack=rack, from_us=begin_us, to_us=begin_us + 60 * MINUTE_US)
        core.send(PolicyChanged, policy=rules(window))
    core.run()


def forgetful(patch):
    """Have passes remember nothing of what they found for others."""
    patch.setattr(Order, "lacks", lambda *_: None)
    patch.setattr(Room, "lacks", lambda *_: None)
    real, held_for = Candidates.of, NodeTable.held_for

    def seen_anew(outlook, pool, job=""):
        view = View(outlook.state, pool)
        view.times[:] = _free_times(outlook.state, view.numbers.tolist(), job)
        return view

    def of(candidates, *rest):
        candidates.forget()
        candidates._known.clear()
        return real(candidates, *rest)

    def held_anew(nodes, pool):
        nodes._held_for.clear()
        return held_for(nodes, pool)

    patch.setattr(Outlook, "of", seen_anew)
    patch.setattr(Candidates, "of", of)
    patch.setattr(NodeTable, "held_for", held_anew)


def check_records(core, seen):
    """Check the records since the last look: evictions only for somebody, never too often, limits kept."""
    for record in core.records[seen:]:
        evictors = [c.job for c in record.changes if isinstance(c, JobReclaimed)]
        evicted = [c for c in record.changes if isinstance(c, JobMoved) and c.reason == "preempted"]
        assert evictors or not [c for c in evicted if c.to == "stopping"]
    for job in core.state.jobs.values():
        assert job.evictions <= EVICTIONS_MAX
    held = {row.name: row.held for row in core.state.quota.rows}
    assert max(held["poor"][:2]) <= 48
    assert held["norm"][-1] <= (8 + 24) * 1000
    return len(core.records)


def chips_of(core, queue_name, kind):
    """Count the chips of a kind that a queue's attempts hold, from the attempts alone."""
    pools = [number for number, pool in enumerate(core.state.nodes.pools) if pool.kind == kind]
    attempts = [a for a in core.state.attempts.values() if core.state.jobs[a.job].claim.queue == queue_name]
    return sum(count for attempt in attempts for pool, count in attempt.rung.chips if pool in pools)


def pool_kind(core, number):
    """Name the chips of a node."""
    return core.state.nodes.pools[core.state.nodes.pool[number]].kind


@pytest.mark.slow
class TestLaws:
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_whatever_happens_the_rules_hold(self, deeds):
        """Links are whole after every event, quotas hold, evictions are bounded, and every waiting job has a reason."""
        core = fresh()
        seen = 0
        for deed in deeds:
            act(core, deed)
            seen = check_records(core, seen)
            for job in core.state.jobs.values():
                if job.state in ("waiting", "reserved"):
                    assert core.why(job).code != "NEXT_PASS"

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_only_queues_within_their_guarantee_evict(self, deeds):
        """Whoever has others evicted holds, with what it asks for, no more than its queue owns."""
        core, owned = fresh(), {"own": {"h800": 40, "a910": 16}, "some": {"h800": 16}}
        real = reclaim._carry_out

        def carry_out(work, job, rung, plan):
            name, after = job.claim.queue, {"h800": 0, "a910": 0}
            for kind in after:
                own = [v for v in plan.taken.values() if core.state.quota.rows[v.queue].name == name]
                lost = sum(len(v.nodes) * 8 for v in own if pool_kind(core, v.nodes[0]) == kind)
                more = sum(count for pool, count in rung.chips if core.state.nodes.pools[pool].kind == kind)
                after[kind] = chips_of(core, name, kind) - lost + more
                if more and name != "norm":
                    assert after[kind] <= owned.get(name, {}).get(kind, 0)
            assert name != "norm" or after["h800"] + after["a910"] / 2 <= 8
            real(work, job, rung, plan)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reclaim, "_carry_out", carry_out)
            for deed in deeds:
                act(core, deed)

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_nobody_starts_on_nodes_freed_for_another(self, deeds):
        """Until the job that nodes were freed for starts, or gives them up, no victim or passer-by starts on them."""
        core, pinned = fresh(), {}
        for deed in deeds:
            act(core, deed)
        for record in core.records:
            for change in record.changes:
                if isinstance(change, Reserved):
                    pinned[change.job] = change.nodes if change.pinned else ()
                elif isinstance(change, Unreserved):
                    pinned.pop(change.job, None)
                elif isinstance(change, AttemptBegan):
                    kept = {n for job, nodes in pinned.items() if job != change.job for n in nodes}
                    assert not kept & {n for part in change.nodes for n in part}

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(
        borrowers=st.lists(st.tuples(st.integers(0, 1200), st.integers(1, 2)), min_size=8, max_size=30),
        gangs=st.lists(st.tuples(st.integers(300, 900), st.integers(2, 4)), min_size=1, max_size=6),
    )
    def test_an_entitled_gang_starts_within_a_bound(self, borrowers, gangs):
        """While its queue's load stays below what it owns, a gang waits for notice and cooldown at most."""
        notice_s, cooldown_s = 30, 60
        rules = policy(
            queue("own", guarantee={"h800": 32}, notice_s=float(notice_s)),
            queue("poor"),
            reclaim=Reclaim(cooldown_s=float(cooldown_s), evictions_at_most=1000),
        )
        core = Core(rules, north_h800=(12, 4, 12))
        for gap_s, nodes in gangs:
            for delay_s, count in borrowers:
                core.submit(size(H, count), queue="poor", time_limit_us=(600 + delay_s) * 1_000_000)
            gang = core.submit(size(H, nodes), queue="own", time_limit_us=280 * 1_000_000)
            core.wait(gap_s)
            began_us = [
                record.event.now_us
                for record in core.records
                for change in record.changes
                if isinstance(change, AttemptBegan) and change.job == gang.id
            ]
            assert began_us
            assert began_us[0] - gang.submitted_us <= (notice_s + cooldown_s + 1) * 1_000_000

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_the_order_of_input_does_not_matter(self, deeds):
        """Nodes and pools described backwards give the same jobs the same nodes."""
        one, other = fresh(), fresh(lambda items: tuple(reversed(items)))
        for deed in deeds:
            if deed[0] not in ("down", "up"):
                act(one, deed), act(other, deed)
        assert [(job.state, one.held(job)) for job in one.state.jobs.values()] == [
            (job.state, other.held(job)) for job in other.state.jobs.values()
        ]

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_everybody_starts_in_the_end(self, deeds):
        """When all nodes are up and running jobs keep ending, every job that waits has its turn."""
        core = fresh()
        for deed in deeds:
            act(core, deed)
        for number in range(16):
            core.send(NodeSeen, node=list(core.state.nodes.number)[number], observed="up", fenced=True)
        for _ in range(80):
            core.wait(400)
            for job in list(core.state.jobs.values()):
                if job.state == "running":
                    core.end(job)
        assert {job.state for job in core.state.jobs.values()} <= {"ended"}

    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_the_compiled_order_is_the_plain_one(self, deeds):
        """With the order of the pass read plainly, quota by quota, everything is decided as with the compiled one."""
        one, other = fresh(), fresh()
        for deed in deeds:
            act(one, deed)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(settle, "Order", PlainOrder)
                act(other, deed)
        assert snapshot(one.state) == snapshot(other.state)

    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_what_a_pass_remembers_changes_no_decision(self, deeds):
        """Where every search, view and table is made anew, everything is decided as with those that are kept."""
        one, other = fresh(), fresh()
        for deed in deeds:
            act(one, deed)
            with pytest.MonkeyPatch.context() as patch:
                forgetful(patch)
                act(other, deed)
        assert snapshot(one.state) == snapshot(other.state)

    @settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_more_groups_than_rows_change_no_decision(self, deeds):
        """A table of groups that grows all the time, also while a pass runs, gives what one of enough rows gives."""
        one = fresh()
        for deed in deeds:
            act(one, deed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lanes, "ROWS_FIRST", 1)
            other = fresh()
            for deed in deeds:
                act(other, deed)
        assert snapshot(one.state) == snapshot(other.state)

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_a_pass_leaves_nothing_for_the_next(self, deeds):
        """Once no pass is asked for any more, another one right away would decide nothing."""
        core = fresh()
        for deed in deeds:
            act(core, deed)
            changes = core.send(PassDue).changes
            # When to look again is known only once what was launched runs.
            assert [change for change in changes if not isinstance(change, TimerSet)] == []

    @given(names=st.permutations(["x", "y", "z"]))
    def test_the_order_of_options_does_not_matter(self, names):
        """Equal options are told apart by name, not by place."""
        core = fresh()
        options = tuple(option(size(H, 2, rate=5), name=name) for name in names)
        job = core.submit(options=options, queue="own")
        assert core.state.attempts[job.attempt].rung.option == "x"
