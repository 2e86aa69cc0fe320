"""Laws that hold whatever happens: hypothesis draws submissions, ends, failures and waits; every step is checked."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.contracts.event import NodeSeen, StopAsked
from argosy.contracts.policy import Reclaim
from argosy.control import order
from argosy.control.change import JobMoved, JobReclaimed
from argosy.control.log import snapshot
from argosy.control.passing import count_capacity
from argosy.control.wishes import Wishes
from support.cores import Core, option, policy, queue, size

H, A = "north/h800", "south/a910"
MINUTE_US = 60_000_000
QUEUES = ("own", "some", "poor", "strict")
EVICTIONS_MAX = 2

submissions = st.tuples(
    st.just("submit"),
    st.sampled_from(QUEUES),
    st.sampled_from((H, A)),
    st.integers(1, 6),
    st.sampled_from(("rack", "spine", "site")),
    st.integers(0, 2),
    st.sampled_from((None, 5, 60)),
    st.booleans(),
)
others = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("stop"), st.integers(0, 30)),
    st.tuples(st.just("down"), st.integers(0, 15)),
    st.tuples(st.just("up"), st.integers(0, 15)),
    st.tuples(st.just("wait"), st.integers(1, 4000)),
)
lives = st.lists(st.one_of(submissions, submissions, others), min_size=5, max_size=40)


class KeepAll:
    """A sieve that sets nothing aside."""

    def __init__(self, state, groups, wishes, strict, settled):
        self.kept, self.rest, self.hopeless = list(range(len(groups))), [], set()
        self.wanted = set()


def rules():
    """One queue that owns and gives no notice, one that owns a little, one that borrows within a limit, one strict."""
    return policy(
        queue("own", guarantee={"h800": 40, "a910": 16}),
        queue("some", guarantee={"h800": 16}, lend={"*": 8}),
        queue("poor", borrow={"*": 48}),
        queue("strict", order="strict"),
        reclaim=Reclaim(evictions_at_most=EVICTIONS_MAX, cooldown_s=300.0),
        spares={"south": 1},
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
        name, pool, nodes, near, priority, minutes, elastic = rest
        limit_us = None if minutes is None else minutes * MINUTE_US
        sizes = [size(pool, nodes, near)] + ([size(pool, max(1, nodes // 2), near)] if elastic else [])
        core.submit(*sizes, queue=name, priority=priority, time_limit_us=limit_us, elastic=elastic)
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
    core.run()


def check_records(core, seen):
    """Check the records since the last look: evictions only by the entitled, never too often."""
    quota = core.state.quota
    for record in core.records[seen:]:
        evictors = [c.job for c in record.changes if isinstance(c, JobReclaimed)]
        evicted = [c for c in record.changes if isinstance(c, JobMoved) and c.reason == "preempted"]
        assert evictors or not [c for c in evicted if c.to == "stopping"]
        for name in evictors:
            queue_name = core.state.jobs[name].claim.queue
            assert queue_name in ("own", "some", "strict", "poor")
    for job in core.state.jobs.values():
        assert job.evictions <= EVICTIONS_MAX
    for row, most in zip(quota.rows, ((2**60,), (2**60,), (48,), (2**60,)), strict=True):
        assert max(row.held[:2]) <= most[0], row.name
    return len(core.records)


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
        """Queues that own nothing never evict anybody of another queue."""
        core = fresh()
        for deed in deeds:
            act(core, deed)
        for record in core.records:
            for change in record.changes:
                if isinstance(change, JobReclaimed):
                    assert core.state.jobs[change.job].claim.queue in ("own", "some")

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

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives, after=st.integers(1, 6))
    def test_the_sieve_changes_nothing(self, deeds, after):
        """With groups set aside at the start of a pass and in its middle, everything is decided as without."""
        one, other = fresh(), fresh()
        for deed in deeds:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(order, "SIEVED_AFTER", (after,))
                act(one, deed)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(order, "SIEVED_AFTER", ())
                patch.setattr(order, "Sieve", KeepAll)
                act(other, deed)
        assert snapshot(one.state) == snapshot(other.state)

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(deeds=lives)
    def test_all_wishes_at_once_are_judged_as_one_by_one(self, deeds):
        """Depth and quota of every group, worked out in arrays, are what the quota tree says of each."""
        core = fresh()
        for deed in deeds:
            act(core, deed)
        state, groups = core.state, [group for group in core.state.waiting if group[1] >= 0]
        count_capacity(state)
        wishes = Wishes(state, groups)
        for index, group in enumerate(groups):
            needs = state.shapes[group[1]].needs
            depths = [state.quota.depth(group[0], need) for need in needs]
            begin, end = wishes.start[index], wishes.start[index + 1]
            assert wishes.depth[begin:end] == depths
            assert wishes.allowed[begin:end] == [
                state.quota.excess(group[0], need, depth) is None for need, depth in zip(needs, depths, strict=True)
            ]

    @given(names=st.permutations(["x", "y", "z"]))
    def test_the_order_of_options_does_not_matter(self, names):
        """Equal options are told apart by name, not by place."""
        core = fresh()
        options = tuple(option(size(H, 2, rate=5), name=name) for name in names)
        job = core.submit(options=options, queue="own")
        assert core.state.attempts[job.attempt].rung.option == "x"
