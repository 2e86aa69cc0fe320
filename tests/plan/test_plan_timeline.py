"""The event-level timeline against closed forms, by hand and by law."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Exchange, Gather, Plan, Replica, Send, Stage, Wire
from argosy.plan.timing.timeline import simulate, work_ms

law = settings(derandomize=True, deadline=None, max_examples=60)


def stage(index: int, stages: int, forward_ms: float = 1, backward_ms: float = 2, update_ms: float = 0) -> Stage:
    """One layer a stage; embedding and head cost nothing."""
    shares = [1.0]
    shares = [0.0, *shares] if index == 0 else shares
    shares = [*shares, 0.0] if index == stages - 1 else shares
    return Stage(
        first_layer=index,
        end_layer=index + 1,
        chip_class="c",
        forward_ms=forward_ms,
        backward_ms=backward_ms,
        backward_shares=tuple(shares),
        update_ms=update_ms,
    )


def replica(
    times: list[tuple[float, float]], microbatches: int, payload_bytes: float = 0, update_ms: float = 0
) -> Replica:
    """Build a replica from each stage's forward and backward time."""
    stages = tuple(stage(i, len(times), f, b, update_ms) for i, (f, b) in enumerate(times))
    sends = (Send(wire="boundary", payload_bytes=payload_bytes),) * (len(times) - 1)
    return Replica(stages=stages, microbatches=microbatches, microbatch_size=1, sends=sends)


def plan(*replicas: Replica, schedule: str = "1f1b", one_way_ms: float = 0, **more: object) -> Plan:
    """Build a plan of these replicas with a private boundary wire and a shared link, both 8 Gb/s."""
    fields = {
        "model": "m",
        "num_layers": len(replicas[0].stages),
        "fleet": "f",
        "sequence_length": 8,
        "global_batch_size": sum(r.sequences for r in replicas),
        "replicas": replicas,
        "schedule": schedule,
        "wires": (
            Wire(name="boundary", gbps=8, one_way_ms=one_way_ms),
            Wire(name="link", gbps=8, one_way_ms=one_way_ms, shared=True, long_link=True),
        ),
    }
    return Plan(**{**fields, **more})  # type: ignore[arg-type]


def exchanges(replicas: int, stages: int, wire_bytes: float = 1e6, gather_bytes: float = 0) -> tuple[Exchange, ...]:
    """Build one exchange a stage, of its only layer, over the shared link."""
    return tuple(
        Exchange(
            unit=s,
            members=tuple((r, s) for r in range(replicas)),
            wire="link",
            wire_bytes=wire_bytes,
            gather_bytes=gather_bytes,
        )
        for s in range(stages)
    )


class TestClosedForms:
    @pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
    @pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (2, 2), (4, 8), (8, 64)])
    def test_balanced(self, schedule: str, stages: int, microbatches: int) -> None:
        """A balanced pipeline takes (m + p - 1) (f + b)."""
        timeline = simulate(plan(replica([(1, 2)] * stages, microbatches), schedule=schedule))
        assert timeline.step_ms == pytest.approx((microbatches + stages - 1) * 3)
        assert timeline.bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))

    def test_one_slow_stage(self) -> None:
        """A last stage that is slower sets the pace: fill, its own work, drain."""
        timeline = simulate(plan(replica([(1, 2), (3, 6)], 4), schedule="1f1b"))
        assert timeline.step_ms == pytest.approx(1 + 4 * 9 + 2)

    def test_gpipe_pays_delays_twice(self) -> None:
        """GPipe pays each boundary's delay and serialisation once each way when stages are the slower."""
        timeline = simulate(plan(replica([(1, 2)] * 3, 4, payload_bytes=5e5), schedule="gpipe", one_way_ms=0.25))
        assert timeline.step_ms == pytest.approx((4 + 2) * 3 + 2 * 2 * (0.5 + 0.25))

    def test_update_and_barrier(self) -> None:
        """Update and barrier add to every step but the first, which no update precedes."""
        timed = simulate(plan(replica([(1, 2)], 2, update_ms=5), barrier_ms=0.5))
        assert timed.barriers_ms == pytest.approx((6.5, 18, 29.5))
        assert timed.step_ms == pytest.approx(11.5)

    def test_slow_wire_sets_the_pace(self) -> None:
        """When a boundary takes longer than a stage, its queue is the bottleneck."""
        timeline = simulate(plan(replica([(1, 1)] * 2, 10, payload_bytes=3e6), schedule="gpipe"))
        assert timeline.step_ms == pytest.approx(1 + 10 * 3 + 1 + 1 + 10 * 3 + 1)


class TestExchanges:
    def test_hidden_but_the_last(self) -> None:
        """The last stage's exchange hides behind the drain; the first stage's shows whole, with two hops."""
        pair = [replica([(1, 2)] * 2, 2), replica([(1, 2)] * 2, 2)]
        timeline = simulate(plan(*pair, exchanges=exchanges(2, 2), one_way_ms=0.25))
        compute_ms = (2 + 1) * 3 + 2 * 0.25
        assert timeline.exposed_ms == pytest.approx(1 + 2 * 0.25)
        assert timeline.step_ms == pytest.approx(compute_ms + 1.5)
        assert [m.unit for m in sorted(timeline.moved, key=lambda m: m.start_ms)] == [1, 0]

    def test_phases_inside_sites_come_after_the_wire(self) -> None:
        """A hierarchical exchange ends later by its phases inside sites, while the wire already serves the next."""
        both = tuple(replace(e, inside_ms=4.0) for e in exchanges(2, 2, 2e6))
        pair = [replica([(0, 0)] * 2, 2)] * 2
        moved = sorted(simulate(plan(*pair, exchanges=both)).moved, key=lambda m: m.start_ms)
        assert [(m.start_ms, m.end_ms) for m in moved] == [(0, 2 + 4), (2, 4 + 4)]

    def test_zero_bubble_gradients_are_whole_late(self) -> None:
        """With zero-bubble a gradient is whole in the weights' part of the last micro-batch, which ends the step."""
        one = replica([(1, 2)] * 2, 2)
        timeline = simulate(plan(one, one, schedule="zero-bubble", exchanges=exchanges(2, 2)))
        last = {op.stage: op.end_ms for op in timeline.ops if (op.kind, op.microbatch) == ("W", 1)}
        assert {m.unit: m.ready_ms for m in timeline.moved} == last

    def test_virtual_stages_exchange_the_last_layers_early(self) -> None:
        """A place's later stage is through first, and its gradients travel while the earlier one still works."""
        one = replica([(1, 2)] * 4, 4)
        timeline = simulate(plan(one, one, schedule="interleaved", virtual_stages=2, exchanges=exchanges(2, 4, 0)))
        ready = {m.unit: m.ready_ms for m in timeline.moved}
        assert ready[3] < ready[2] < ready[1] < ready[0] == max(op.end_ms for op in timeline.ops)

    def test_waits_for_the_slowest_member(self) -> None:
        """An exchange starts when its last member has the gradient."""
        timeline = simulate(plan(replica([(1, 2)], 1), replica([(1, 2)], 3), exchanges=exchanges(2, 1)))
        assert timeline.moved[0].ready_ms == pytest.approx(9)

    def test_gathers_precede_the_next_step(self) -> None:
        """With a sharded update the gathers, in unit order, hold back the stages that wait for them."""
        pair = [replica([(1, 2)] * 2, 2, update_ms=1)] * 2
        timeline = simulate(plan(*pair, exchanges=exchanges(2, 2, 0, gather_bytes=2e6)))
        gathers = [m for m in timeline.moved if m.kind == "gather"]
        assert [(m.unit, m.start_ms, m.end_ms) for m in gathers] == [(0, 1, 3), (1, 3, 5)]
        assert timeline.step_ms == pytest.approx(3 + 1 + 9)

    def test_gathers_inside_a_site_hold_its_members_only(self) -> None:
        """By phases each site gathers what it updated, when its own members have; nothing crosses the link again."""
        (sync,) = exchanges(3, 1, 0)
        north = Gather(members=((0, 0), (2, 0)), wire="boundary", payload_bytes=2e6)
        one = replica([(1, 2)], 2, update_ms=1)
        pair = (one, replica([(1, 2)], 2, update_ms=5), one)
        shown = simulate(plan(*pair, zero_stage=1, exchanges=(replace(sync, inside_ms=0.5, gathers=(north,)),)))
        gathers = [(m.wire, m.start_ms, m.end_ms) for m in shown.moved if m.kind == "gather"]
        assert gathers == [("boundary", 1, 3)]
        begins = {op.replica: op.start_ms for op in shown.ops if (op.kind, op.microbatch) == ("F", 0)}
        assert begins == {0: 3, 1: 5, 2: 3}

    def test_ready_in_the_last_microbatch(self) -> None:
        """A gradient is whole within the last micro-batch's backward, after the share of its own and later units."""
        halves = replace(stage(0, 1), backward_shares=(0.25, 0.5, 0.25))
        one = Replica(stages=(halves,), microbatches=2, microbatch_size=1)
        timeline = simulate(plan(one, one, exchanges=exchanges(2, 1)))
        assert timeline.moved[0].ready_ms == pytest.approx(2 * 3 - 2 + 0.75 * 2)


class TestTimeline:
    def test_ops(self) -> None:
        """Every op is listed once, never overlapping on its stage, times from the barrier on."""
        timeline = simulate(plan(replica([(1, 2)] * 3, 4, update_ms=1)))
        assert len(timeline.ops) == 3 * (2 * 4 + 1)
        for index in range(3):
            spans = sorted((o.start_ms, o.end_ms) for o in timeline.ops if o.stage == index)
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
            assert spans[0] == (0, 1)

    def test_repeats(self) -> None:
        """The same plan gives the same timeline."""
        one = plan(replica([(1, 2), (2, 3)], 5), exchanges=exchanges(1, 2))
        assert simulate(one) == simulate(one)

    def test_some_listed(self) -> None:
        """Listing the work of some replicas changes no time."""
        one = plan(replica([(1, 2), (2, 3)], 5), replica([(1, 2), (2, 3)], 4))
        some = simulate(one, listed=(1,))
        assert {op.replica for op in some.ops} == {1}
        assert some.step_ms == simulate(one).step_ms

    def test_places_are_busy_with_all_their_stages(self) -> None:
        """The busy share of a place counts all its virtual stages, and there is one a place."""
        timeline = simulate(plan(replica([(1, 2)] * 4, 4), schedule="interleaved", virtual_stages=2))
        assert timeline.busy[0] == (pytest.approx(4 * 2 * 3 / timeline.step_ms),) * 2

    def test_without_detail(self) -> None:
        """Leaving out the ops changes no time."""
        one = plan(replica([(1, 2), (2, 3)], 5))
        assert simulate(one, detail=False) == replace(simulate(one), ops=())


class TestIllegal:
    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"replicas": ()}, "no replica"),
            ({"num_layers": 9}, "ends at layer 2; the model has 9"),
            ({"global_batch_size": 7}, "take 4 sequences a step, global_batch_size is 7"),
            ({"wires": ()}, "no wire 'boundary'"),
            ({"schedule": "zbv"}, "no schedule 'zbv'"),
        ],
    )
    def test_plan(self, changes: dict[str, object], text: str) -> None:
        """A plan that can't be is refused, saying what is wrong."""
        with pytest.raises(BadInputError, match=text):
            simulate(replace(plan(replica([(1, 2)] * 2, 4)), **changes))

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"backward_shares": (1.0,)}, "it needs 2, none negative, that sum to 1"),
            ({"forward_ms": float("nan")}, "forward_ms nan; it is finite"),
            ({"first_layer": 1}, "it must begin at 0"),
        ],
    )
    def test_stage(self, changes: dict[str, object], text: str) -> None:
        """A stage that can't be is refused, naming the replica and the stage."""
        good = replica([(1, 2)] * 2, 4)
        bad = replace(good, stages=(replace(good.stages[0], **changes), good.stages[1]))
        with pytest.raises(BadInputError, match=f"replica 0, stage 0.*{text}"):
            simulate(plan(bad))

    def test_exchange_of_a_stranger(self) -> None:
        """An exchange whose member does not hold the unit is refused."""
        wrong = replace(exchanges(1, 1)[0], unit=1)
        with pytest.raises(BadInputError, match="unit 1: replica 0, stage 0 does not hold it"):
            simulate(plan(replica([(1, 2)] * 2, 4), exchanges=(wrong,)))

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"members": ()}, "has no members"),
            ({"inside_ms": -1.0}, "inside_ms"),
            ({"wire_bytes": float("inf")}, "finite"),
        ],
        ids=str,
    )
    def test_exchange(self, changes: dict[str, object], text: str) -> None:
        """An exchange without members or with impossible sizes is refused."""
        wrong = replace(exchanges(1, 1)[0], **changes)
        with pytest.raises(BadInputError, match=f"unit 0.*{text}"):
            simulate(plan(replica([(1, 2)] * 2, 4), exchanges=(wrong,)))

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"gathers": ()}, "by phases has 0 gathers, gather_bytes 0, zero_stage 1"),
            ({"gather_bytes": 1.0}, "by phases has 1 gathers, gather_bytes 1.0"),
            ({"gathers": (Gather(members=(), wire="link", payload_bytes=1),)}, "a gather has no members"),
            ({"gathers": (Gather(members=((0, 0),), wire="link", payload_bytes=-1),)}, "payload_bytes -1"),
            ({"gathers": (Gather(members=((1, 0), (9, 0)), wire="link", payload_bytes=1),)}, "members that"),
            ({"gathers": (Gather(members=((0, 0), (0, 0)), wire="link", payload_bytes=1),)}, "there twice"),
            ({"gathers": (Gather(members=((0, 0),), wire="link", payload_bytes=1, hops=-1),)}, "hops -1"),
            ({"gathers": (Gather(members=((0, 0), (1, 0)), wire="link", payload_bytes=1),)}, "in c, d; .* one site"),
            ({"gathers": (Gather(members=((0, 0),), wire="none", payload_bytes=1),)}, "no wire 'none'"),
        ],
        ids=str,
    )
    def test_phases(self, changes: dict[str, object], text: str) -> None:
        """What is sharded by phases must be gathered inside sites, by members that gather it nowhere else."""
        one = replica([(1, 2)], 4)
        other = replace(one, stages=(replace(one.stages[0], chip_class="d"),))
        gather = Gather(members=((0, 0), (2, 0)), wire="link", payload_bytes=1)
        good = replace(exchanges(3, 1)[0], inside_ms=1.0, gathers=(gather,))
        assert simulate(plan(one, other, one, zero_stage=1, exchanges=(good,))).step_ms > 0
        with pytest.raises(BadInputError, match=text):
            simulate(plan(one, other, one, zero_stage=1, exchanges=(replace(good, **changes),)))

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"virtual_stages": 3}, "2 stages can't be 3 virtual stages a place"),
            ({"virtual_stages": 2}, "1f1b with 2 virtual stages; it has 1"),
            ({"zero_stage": 4}, "zero_stage 4; it is one of 0, 1, 2, 3"),
            ({"zero_stage": 3}, "zero_stage 3 with replica 0 of 2 stages: .* use zero_stage 1"),
        ],
        ids=str,
    )
    def test_counts(self, changes: dict[str, object], text: str) -> None:
        """Virtual stages that don't divide the stages and shards that a pipeline can't have are refused."""
        with pytest.raises(BadInputError, match=text):
            simulate(replace(plan(replica([(1, 2)] * 2, 4)), **changes))

    def test_places(self) -> None:
        """Virtual stages of one place must be alike in what they run on."""
        good = replica([(1, 2)] * 4, 2)
        bad = replace(good, stages=(*good.stages[:3], replace(good.stages[3], tp=2)))
        with pytest.raises(BadInputError, match="stage 3: on 2 of c, stage 1 of the same place on 1 of c"):
            simulate(plan(bad, schedule="interleaved", virtual_stages=2))

    def test_no_steps(self) -> None:
        """A timeline of no step is refused."""
        with pytest.raises(BadInputError, match="steps 0"):
            simulate(plan(replica([(1, 2)], 1)), steps=0)


times = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)


class TestLaws:
    @law
    @given(times, st.integers(5, 12), st.sampled_from(["gpipe", "1f1b"]))
    def test_never_faster_than_the_slowest_stage(self, pairs: list[tuple[int, int]], m: int, schedule: str) -> None:
        """No step is shorter than the slowest stage's own work plus filling and draining around it."""
        one = plan(replica(pairs, m), schedule=schedule)
        floors = [sum(f + b for f, b in pairs[:i]) + work_ms(s, m) for i, s in enumerate(one.replicas[0].stages)]
        assert simulate(one).step_ms >= max(floors) - 1e-9

    @law
    @given(times, st.integers(5, 9), st.sampled_from(["gpipe", "1f1b"]), st.integers(0, 5), st.integers(1, 5))
    def test_delay_never_speeds_up(
        self, pairs: list[tuple[int, int]], m: int, schedule: str, ms: int, more: int
    ) -> None:
        """Adding delay to the wires never shortens a step."""
        both = [replica(pairs, m), replica(pairs, m)]
        shared = exchanges(2, len(pairs))
        near = simulate(plan(*both, schedule=schedule, one_way_ms=ms, exchanges=shared)).step_ms
        far = simulate(plan(*both, schedule=schedule, one_way_ms=ms + more, exchanges=shared)).step_ms
        assert far >= near

    @law
    @given(st.integers(1, 6), st.integers(0, 6), st.integers(1, 9), st.integers(1, 9))
    def test_equal_stages_without_wires(self, p: int, more: int, f: int, b: int) -> None:
        """With equal stages and free wires GPipe and 1F1B take equal time."""
        one = replica([(f, b)] * p, p + more)
        assert simulate(plan(one, schedule="gpipe")).step_ms == pytest.approx(simulate(plan(one)).step_ms)

    @law
    @given(times, st.integers(5, 9), st.sampled_from(["gpipe", "1f1b", "zero-bubble"]), st.integers(0, 5))
    def test_doubling_every_speed_halves_the_step(
        self, pairs: list[tuple[int, int]], m: int, schedule: str, ms: int
    ) -> None:
        """With stages, wires and updates twice as fast, and half the delays, a step takes half as long."""

        def made(fast: float) -> Plan:
            some = [(f / fast, b / fast) for f, b in pairs]
            both = [replica(some, m, 1e6, 3 / fast), replica(some, m + 1, 1e6, 3 / fast)]
            the_plan = plan(*both, schedule=schedule, one_way_ms=ms / fast, exchanges=exchanges(2, len(pairs)))
            wires = tuple(replace(wire, gbps=wire.gbps * fast) for wire in the_plan.wires)
            return replace(the_plan, wires=wires, barrier_ms=1 / fast)

        assert simulate(made(2)).step_ms == pytest.approx(simulate(made(1)).step_ms / 2)

    @law
    @given(st.lists(st.tuples(times, st.integers(5, 9)), min_size=2, max_size=4), st.randoms(use_true_random=False))
    def test_order_of_replicas_changes_nothing(self, drawn: list[tuple[list[tuple[int, int]], int]], dice: Any) -> None:
        """Replicas in another order take the same step."""
        deep = max(len(pairs) for pairs, _ in drawn)
        made = [replica([*pairs, *[(1, 1)] * (deep - len(pairs))], m) for pairs, m in drawn]
        shuffled = list(made)
        dice.shuffle(shuffled)
        some = exchanges(len(made), deep)
        assert simulate(plan(*shuffled, exchanges=some)).step_ms == simulate(plan(*made, exchanges=some)).step_ms

    @law
    @given(times, st.integers(5, 9), st.integers(0, 3))
    def test_steps_are_alike(self, pairs: list[tuple[int, int]], m: int, gather_mb: int) -> None:
        """From the second step on all steps take equal time."""
        both = [replica(pairs, m, update_ms=1), replica(pairs, m + 1, update_ms=2)]
        timeline = simulate(plan(*both, exchanges=exchanges(2, len(pairs), 1e6, gather_mb * 1e6)), steps=5)
        gaps = [b - a for a, b in zip(timeline.barriers_ms, timeline.barriers_ms[1:], strict=False)]
        assert gaps == pytest.approx([gaps[0]] * len(gaps))
