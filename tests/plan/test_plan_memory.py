"""What stages hold under every way of splitting: sums by hand and laws."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import EMBEDDING
from argosy.model.memory import activation_bytes, rank_parameters_apart, state_bytes
from argosy.model.numerics import MEGATRON
from argosy.plan.costs.memory import (
    FRAGMENTATION,
    GATHERED_UNITS,
    Holding,
    ends_gb,
    messages_gb,
    reserve_gb,
    unit_gb,
    workspace_gb,
)
from argosy.plan.costs.program import MEGATRON_2022, TRAINER
from argosy.plan.costs.setting import Setting, Way
from argosy.plan.timing.schedules import held_microbatches

GAPS = 1 + FRAGMENTATION
MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v3")


def megatron(build: Any, model: str = "mixtral-8x7b") -> Setting:
    """Build a setting whose program keeps 2 + 4 + 12 bytes a parameter and has no buffers."""
    return replace(build.setting(model, sequence_length=1024, precision="bf16"), program=MEGATRON_2022)


class TestZero:
    def test_each_stage_cuts_one_thing_more(self, build: Any) -> None:
        """ZeRO 1 to 3 leave of 18 bytes a parameter 6 + 12/n, 2 + 16/n and 18/n."""
        setting = megatron(build, "gpt2")
        count = sum(rank_parameters_apart(setting.shape, 0))
        stages = {(1, 1, 1): 18.0, (8, 1, 1): 6 + 12 / 8, (8, 8, 1): 2 + 16 / 8, (8, 8, 8): 18 / 8}
        for (optimizer, gradients, weights), a_parameter in stages.items():
            holding = Holding(
                way=Way(), held=0, optimizer_shards=optimizer, gradient_shards=gradients, weight_shards=weights
            )
            assert unit_gb(setting, build.chip_class(), 0, holding) == pytest.approx(
                a_parameter * count * GAPS / 1e9, rel=1e-6
            )

    def test_experts_are_shared_by_fewer(self, build: Any) -> None:
        """Of 32 ranks that hold the dense weights, EP 8 leaves four that hold the same experts."""
        setting = megatron(build)
        everywhere, experts = rank_parameters_apart(setting.shape, 0, ep=8)
        state = state_bytes(setting.shape, 0, MEGATRON, ep=8, optimizer_shards=32)
        assert state.optimizer == pytest.approx(12 * (everywhere / 32 + experts / 4), abs=24)

    def test_gathered_weights_need_room(self, build: Any) -> None:
        """With ZeRO-3 the unit at work and the next have their weights whole."""
        setting = megatron(build, "gpt2")
        plain, sharded = (workspace_gb(setting, 0, Holding(way=Way(), held=1, weight_shards=n)) for n in (1, 8))
        whole = sum(rank_parameters_apart(setting.shape, 0)) * 2
        assert sharded - plain == pytest.approx(GATHERED_UNITS * whole * GAPS / 1e9)


class TestSplits:
    @settings(deadline=None, derandomize=True)
    @given(
        model=st.sampled_from(MODELS),
        unit=st.sampled_from([-1, 0, 20]),
        tp=st.sampled_from([1, 2]),
        cp=st.sampled_from([1, 2]),
        held=st.integers(1, 8),
        shards=st.sampled_from([1, 4]),
        program=st.sampled_from([TRAINER, MEGATRON_2022]),
    )
    def test_more_ranks_never_hold_more(
        self, build: Any, model: str, unit: int, tp: int, cp: int, held: int, shards: int, program: Any
    ) -> None:
        """Twice the TP, CP, EP or shards leaves a rank no more of any unit; one micro-batch more leaves it more."""
        setting = replace(build.setting(model, sequence_length=1024, precision="bf16"), program=program)
        way = Way(tp=tp, cp=cp)
        base = Holding(way=way, held=held, optimizer_shards=shards)
        whole = unit_gb(setting, build.chip_class(), unit, base)
        for more in (replace(way, tp=2 * tp), replace(way, cp=2 * cp), replace(way, ep=2)):
            assert unit_gb(setting, build.chip_class(), unit, replace(base, way=more)) <= whole * (1 + 1e-9)
        if shards > 1:
            assert unit_gb(setting, build.chip_class(), unit, replace(base, optimizer_shards=2 * shards)) <= whole
        assert unit_gb(setting, build.chip_class(), unit, replace(base, held=held + 1)) > whole

    def test_context_parallelism_cuts_activations(self, build: Any) -> None:
        """Two CP ranks keep half of a layer's activations each."""
        setting = megatron(build, "llama-3-8b")
        one, two = (
            activation_bytes(setting.shape, 0, MEGATRON, setting.split(Way(cp=cp)), "selective") for cp in (1, 2)
        )
        assert two * 2 == one

    def test_a_stage_is_the_sum_of_its_parts(self, build: Any) -> None:
        """A lone stage of an emulated chip holds embedding, head and the largest workspace besides its layers."""
        setting, chips = build.setting(), build.chip_class()
        holding = Holding(way=Way(), held=2)
        head = setting.shape.num_layers
        parts = sum(unit_gb(setting, build.chip_class(), unit, holding) for unit in (EMBEDDING, head))
        work = max(workspace_gb(setting, unit, holding) for unit in (0, head))
        assert ends_gb(setting, chips, True, True, holding) == pytest.approx(parts + work)

    def test_messages_of_neighbours(self, build: Any) -> None:
        """An inner stage has a micro-batch's activations under way from both sides."""
        setting, holding = build.setting(), Holding(way=Way(), held=1)
        assert messages_gb(setting, False, False, holding) == pytest.approx(2 * 64 * 64 * 4 * GAPS / 1e9)
        assert messages_gb(setting, True, True, holding) == 0


class TestReserve:
    def test_what_is_kept_for_gaps_and_runtime(self) -> None:
        """A place's figure has 4 % of what is asked for in it for gaps, and on a real chip 1 GB for the runtime."""
        assert reserve_gb(1.04 * 50 + 1, emulated=False) == pytest.approx(0.04 * 50 + 1)
        assert reserve_gb(1.04 * 50, emulated=True) == pytest.approx(0.04 * 50)


class TestPlaces:
    def test_a_place_holds_what_its_schedule_keeps(self) -> None:
        """1F1B holds one micro-batch more a stage nearer the front; interleaving more, in parts of a place."""
        assert [held_microbatches("1f1b", place, 4, 16) for place in range(4)] == [4, 3, 2, 1]
        assert held_microbatches("interleaved", 0, 4, 16, 2) == 11
