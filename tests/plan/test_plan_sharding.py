"""ZeRO 0 to 3: what ranks send one another, each thing once, counted by hand in costs, timeline and memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING, Plan
from argosy.model.memory import rank_parameters, rank_parameters_apart
from argosy.plan.costs.cost import unit_cost
from argosy.plan.costs.inside import passed_ms
from argosy.plan.costs.memory import Holding, workspace_gb
from argosy.plan.costs.rings import parts_of_ring
from argosy.plan.costs.setting import NO_SHARDS, Setting, Way, shards_of
from argosy.plan.costs.sharding import SLOWED_BESIDE, shared_bytes, shared_ms
from argosy.plan.pipelines.grid import Family, Freedom
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.templates import make_template
from argosy.plan.search.drafts import Draft, make_draft
from argosy.plan.search.plans import sketch
from argosy.plan.search.search import exchanged
from argosy.plan.timing.timeline import steady

RANKS, MICROBATCHES = 4, 6
RING = (RANKS - 1) / RANKS
ONE = Way()


def drafted(build: Any, zero_stage: int, chips: ChipClass | None = None) -> Draft:
    """Lay four replicas of a tiny model on four chips, six micro-batches each."""
    chips = chips or build.chip_class()
    layout = Layout(
        runs=(Run(chip_class=chips, places=1),),
        microbatches=MICROBATCHES,
        count=RANKS,
        zero_stage=zero_stage,
        shards=RANKS if zero_stage else 1,
    )
    setting = build.setting(precision="bf16")
    template = make_template(setting, layout, [])
    assert template is not None
    base = Draft(setting=setting, model="m", fleet="f", groups=(), schedule="1f1b", zero_stage=zero_stage, links=())
    draft = make_draft(base, [(template, RANKS)], RANKS * MICROBATCHES)
    assert draft is not None
    return draft


def sent_in_a_step(setting: Setting, plan: Plan, zero_stage: int) -> float:
    """Add up what one rank sends in a step: its exchanges, and what its stages share in every micro-batch."""
    once = sum(exchange.wire_bytes + exchange.gather_bytes for exchange in plan.exchanges)
    shards = shards_of(zero_stage, RANKS).passed
    each = [shared_bytes(setting, unit, ONE, shards) for unit in setting.shape.units]
    gathers = 0 if zero_stage < 3 else 2
    return once + MICROBATCHES * sum(gathers * sum(one.gathered) + sum(one.scattered) for one in each)


def parameters(setting: Setting) -> int:
    """Count all parameters."""
    return sum(rank_parameters(setting.shape, unit) for unit in setting.shape.units)


class TestBytes:
    @pytest.mark.parametrize(
        ("zero_stage", "expected"),
        [
            # All-reduce of fp32 gradients.
            (0, 2 * 4),
            # Scatter of gradients, gather of the trainer's fp32 parameters.
            (1, 4 + 4),
            # Scatter in each micro-batch, gather once.
            (2, MICROBATCHES * 4 + 4),
            # In each micro-batch: two gathers of 16 bits, one scatter of 32.
            (3, MICROBATCHES * (2 * 2 + 4)),
        ],
    )
    def test_a_step_by_hand(self, build: Any, zero_stage: int, expected: int) -> None:
        """A rank of four sends 3/4 of this many bytes a parameter in a step, each counted once."""
        draft = drafted(build, zero_stage)
        sent = sent_in_a_step(draft.setting, sketch(draft), zero_stage)
        assert sent == pytest.approx(RING * expected * parameters(draft.setting))

    @pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
    def test_parts(self, zero_stage: int) -> None:
        """What a step no longer sends once, a micro-batch sends: scatter with ZeRO-2, gather too with ZeRO-3."""
        shards = shards_of(zero_stage, RANKS)
        once = parts_of_ring(zero_stage)
        if zero_stage:
            assert once == (0.5 * (shards.gradient == 1), 0.5 * (shards.weight == 1))

    def test_experts(self, build: Any) -> None:
        """Of 16 ranks EP 8 leaves two that share an expert's weights, and EP 16 none."""
        setting = build.setting("mixtral-8x7b", precision="bf16")
        for ep, few in ((8, 2), (4, 4)):
            dense, experts = rank_parameters_apart(setting.shape, 0, ep=ep)
            sent = shared_bytes(setting, 0, Way(ep=ep), shards_of(3, 16))
            assert sent.gathered == pytest.approx((dense * 2 * 15 / 16, experts * 2 * (few - 1) / few))
        assert shared_bytes(setting, 0, Way(ep=8), shards_of(3, 8)).gathered[1] == 0


class TestTimes:
    """Times of a layer on chips whose wires, or whose arithmetic, are slow."""

    def cost(self, build: Any, unit: int, zero_stage: int, gbytes_s: float) -> tuple[float, float]:
        """Give forward and backward of a unit, emulated, in one node of eight chips."""
        chips = build.chip_class(chips_per_node=8)
        chips = replace(chips, chip=replace(chips.chip, scale_up_gbytes_s=gbytes_s))
        shards = shards_of(zero_stage, 8).passed
        found = unit_cost(build.setting(precision="bf16"), chips, unit, ONE, shards)
        return found.forward_ms, found.backward_ms

    def ring_ms(self, build: Any, unit: int, each_bytes: int, gbytes_s: float) -> float:
        """Time a ring of eight by hand: 7/8 of the bytes, and seven delays."""
        numbers = rank_parameters(build.shape(), unit)
        return numbers * each_bytes * 7 / 8 / (gbytes_s * 1e6) + 7 * 0.002

    def test_hidden(self, build: Any) -> None:
        """Beside enough arithmetic nothing shows."""
        for zero_stage in (2, 3):
            chips = build.chip_class(tflops=1e-4, chips_per_node=8)
            setting, shards = build.setting(precision="bf16"), shards_of(zero_stage, 8).passed
            assert unit_cost(setting, chips, 0, ONE, shards) == unit_cost(setting, chips, 0, ONE)

    def test_slow_wires(self, build: Any) -> None:
        """ZeRO-2 waits for its scatter in backward, ZeRO-3 for a gather in forward, and one more and that scatter."""
        slow = 1e-3
        gather, scatter = (self.ring_ms(build, 0, each, slow) for each in (2, 4))
        plain = self.cost(build, 0, 0, slow)
        assert self.cost(build, 0, 2, slow) == pytest.approx((plain[0], scatter))
        assert self.cost(build, 0, 3, slow) == pytest.approx((gather, gather + scatter))

    def test_ends(self, build: Any) -> None:
        """Nothing hides a micro-batch's first gather and its last scatter, those of the embedding."""
        fast = 1e6
        gather, scatter = (self.ring_ms(build, EMBEDDING, each, fast) for each in (2, 4))
        plain, shared = (self.cost(build, EMBEDDING, zero_stage, fast) for zero_stage in (0, 3))
        assert shared == pytest.approx((plain[0] + gather, max(plain[1], gather) + scatter))

    def test_work_beside_is_hindered(self, build: Any) -> None:
        """On real chips a gather beside arithmetic slows it down, and what came is copied through memory."""
        chips = build.chip_class(tflops=1e-3, emulated=False, chips_per_node=8)
        setting, shards = build.setting(precision="bf16"), shards_of(3, 8).passed
        gather, scatter = shared_ms(setting, chips, 0, ONE, shards)
        plain, found = unit_cost(setting, chips, 0, ONE), unit_cost(setting, chips, 0, ONE, shards)
        copy = rank_parameters(setting.shape, 0) / (1e9 * 0.8)
        assert found.forward_ms == pytest.approx(plain.forward_ms + gather * SLOWED_BESIDE + 4 * copy)
        lost = (gather + scatter) * SLOWED_BESIDE + (4 + 6) * copy
        assert found.backward_ms == pytest.approx(plain.backward_ms + lost)

    def test_experts_that_nobody_shares_cost_nothing(self, build: Any) -> None:
        """Of eight ranks with EP 8 each has experts of its own: what is copied beside the work is the rest alone."""
        chips = build.chip_class(tflops=75.0, emulated=False, chips_per_node=8, nodes=2)
        setting = build.setting("mixtral-8x7b", 4096, "bf16")
        dense, experts = rank_parameters_apart(setting.shape, 0, ep=8)
        for ranks, copied in ((8, dense), (16, dense + experts)):
            shards = shards_of(3, ranks).passed
            plain, found = (unit_cost(setting, chips, 0, Way(ep=8), each) for each in (NO_SHARDS, shards))
            gather, _ = shared_ms(setting, chips, 0, Way(ep=8), shards)
            copies = copied * 4 / (1e9 * 0.8)
            assert found.forward_ms == pytest.approx(max(plain.forward_ms + gather * SLOWED_BESIDE + copies, gather))

    def test_rings_of_experts(self, build: Any) -> None:
        """Eight rings of one rank a node have one port each; one ring of all has the ports of all."""
        chips = build.chip_class(chips_per_node=8, nodes=4, nic_gbps=800.0)
        one, all_ = passed_ms(chips, 8, 4, 1e9), passed_ms(chips, 1, 32, 1e9)
        assert one == pytest.approx(1e9 / 12.5e6 + 3 * 0.005)
        assert all_ == pytest.approx(1e9 / 1e8 + 3 * 0.005 + 28 * 0.002)


class TestClasses:
    def test_gradients_and_weights_are_shared_by_one(self, build: Any) -> None:
        """A draft on two classes may shard the optimizer's state, for which rings through both are priced, no more."""
        classes = [build.chip_class("north/a"), build.chip_class("north/b")]
        for zero_stage in (1, 2, 3):
            drafts = [drafted(build, zero_stage, chips) for chips in classes]
            both = replace(drafts[0], groups=(*drafts[0].groups, *drafts[1].groups))
            freedom = Freedom(sizes=(1,), recomputes=("none",))
            assert len(list(exchanged(drafts[0], freedom))) == 1
            assert len(list(exchanged(both, freedom))) == (zero_stage == 1)


class TestLockstep:
    """A replica with fewer micro-batches would leave those that share with it waiting."""

    def test_groups_share_no_gradients(self, build: Any) -> None:
        """Five micro-batches on four replicas may shard the optimizer's state, no more."""
        freedom = Freedom(sizes=(1,), recomputes=("none",))
        for zero_stage in (1, 2, 3):
            draft = drafted(build, zero_stage)
            uneven = make_draft(replace(draft, groups=()), [(draft.groups[0].template, RANKS)], RANKS + 1)
            assert uneven is not None
            assert len(uneven.groups) == 2
            assert len(list(exchanged(uneven, freedom))) == (zero_stage == 1)

    @pytest.mark.parametrize(("batch", "count"), [(8, 4), (6, 3), (5, 1), (10, 2)])
    def test_fewer_share_evenly(self, build: Any, batch: int, count: int) -> None:
        """On four chips the search lays as many replicas for ZeRO-3 as the batch divides over, each of one stage."""
        search = build.search(build.setting("tiny"), batch=batch)
        front = search.front(tuple(build.parts(build.chip_class())), Family(zero_stage=3))
        assert max(choice.count for choice in front) == count
        assert {choice.template.layout.depth for choice in front} == {1}


class TestTimeline:
    def steps(self, build: Any, zero_stages: Sequence[int]) -> list[float]:
        """Time a step on slow wires with each ZeRO stage."""
        chips = build.chip_class(chips_per_node=4, nodes=1)
        chips = replace(chips, chip=replace(chips.chip, scale_up_gbytes_s=0.01))
        return [steady(sketch(drafted(build, zero_stage, chips))).step_ms for zero_stage in zero_stages]

    def test_what_is_sent_more_often_takes_longer(self, build: Any) -> None:
        """On slow wires a step of ZeRO-2 is longer than one of ZeRO-1 by the scatters of its other micro-batches."""
        one, two, three = self.steps(build, (1, 2, 3))
        setting = build.setting(precision="bf16")
        scatter = parameters(setting) * 4 * RING / 1e4
        assert two - one == pytest.approx((MICROBATCHES - 1) * scatter, rel=0.2)
        assert three - two == pytest.approx(MICROBATCHES * scatter - parameters(setting) * 4 * RING / 1e4, rel=0.2)

    def test_nothing_is_left_for_the_end(self, build: Any) -> None:
        """With ZeRO-3 no exchange or gather takes any time once a step."""
        plan = sketch(drafted(build, 3))
        assert {(e.wire_bytes, e.gather_bytes) for e in plan.exchanges} == {(0, 0)}
        assert all(moved.end_ms == moved.ready_ms for moved in steady(plan).moved)


class TestMemory:
    def test_what_is_whole_for_a_while(self, build: Any) -> None:
        """With ZeRO-2 a unit's gradients stand whole in 16 and 32 bits, with ZeRO-3 two units' weights too."""
        setting = build.setting(precision="bf16")
        numbers = rank_parameters(setting.shape, 0)
        plain, two, three = (
            workspace_gb(setting, 0, Holding(way=ONE, held=1, gradient_shards=g, weight_shards=w))
            for g, w in ((1, 1), (8, 1), (8, 8))
        )
        assert two - plain == pytest.approx(numbers * 6 * 1.04 / 1e9)
        assert three - two == pytest.approx(2 * numbers * 2 * 1.04 / 1e9)

    def test_experts_that_nobody_shares_are_never_whole_twice(self, build: Any) -> None:
        """Of eight ranks with EP 8 a gather brings what is no expert; of sixteen the experts too."""
        setting = build.setting("mixtral-8x7b", 4096, "bf16")
        dense, experts = rank_parameters_apart(setting.shape, 0, ep=8)
        plain, eight, sixteen = (
            workspace_gb(setting, 0, Holding(way=Way(ep=8), held=1, gradient_shards=n, weight_shards=n))
            for n in (1, 8, 16)
        )
        assert eight - plain == pytest.approx(dense * (6 + 4) * 1.04 / 1e9)
        assert sixteen - plain == pytest.approx((dense + experts) * (6 + 4) * 1.04 / 1e9)

    def test_no_shards(self) -> None:
        """Without sharding everything is cut over one rank; the optimizer's share is not sent in micro-batches."""
        assert shards_of(0, 8) == NO_SHARDS
        assert shards_of(1, 8).passed == NO_SHARDS
