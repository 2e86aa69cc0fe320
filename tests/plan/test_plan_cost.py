"""Times of units and memory of stages, against sums by hand."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.plan import EMBEDDING
from argosy.model.counts import unit_parameters
from argosy.model.flops import forward_flops_per_token
from argosy.model.memory import rank_parameters_apart
from argosy.plan.costs.alone import EMULATED_EFFICIENCY
from argosy.plan.costs.cost import UPDATE_BYTES, missing_peak, unit_cost, update_ms
from argosy.plan.costs.memory import FRAGMENTATION, RUNTIME_GB, Holding, ends_gb, messages_gb, unit_gb
from argosy.plan.costs.setting import Way

ONE = Way()


def holding(held: int = 1, optimizer_shards: int = 1, **way: Any) -> Holding:
    """Build the way a single stage holds one micro-batch."""
    return Holding(way=Way(**way), held=held, optimizer_shards=optimizer_shards)


class TestUnitCost:
    def test_flops(self, build: Any) -> None:
        """A layer takes its FLOPs over the part of the peak that is reached; backward twice that."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        cost = unit_cost(setting, chips, 0, ONE)
        flops = 64 * forward_flops_per_token(setting.shape, 0, 64)
        assert cost.forward_ms == pytest.approx(flops / (1e6 * EMULATED_EFFICIENCY))
        assert cost.backward_ms == pytest.approx(2 * cost.forward_ms)

    def test_memory_floor(self, build: Any) -> None:
        """However fast its arithmetic, a layer's weights must be read: once forward, three passes backward."""
        setting, chips = build.setting(), build.chip_class(tflops=1e9)
        cost = unit_cost(setting, chips, 0, ONE)
        assert cost.forward_ms == pytest.approx(unit_parameters(setting.shape, 0) * 4 / 1e9)
        assert cost.backward_ms == pytest.approx(3 * cost.forward_ms)

    def test_recompute(self, build: Any) -> None:
        """Full recompute adds one forward to a layer's backward and nothing to the head's."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        plain = [unit_cost(setting, chips, unit, ONE) for unit in (0, 4)]
        again = [unit_cost(setting, chips, unit, Way(recompute="full")) for unit in (0, 4)]
        assert again[0].backward_ms == pytest.approx(plain[0].backward_ms + plain[0].forward_ms)
        assert again[1] == plain[1]

    def test_tp(self, build: Any) -> None:
        """Two chips halve the arithmetic and add two all-reduces of the activations."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        one, two = (unit_cost(setting, chips, 0, Way(tp=tp)).forward_ms for tp in (1, 2))
        exchange_ms = 2 * (64 * 64 * 4 / 1e8 + 2 * 0.002)
        assert two == pytest.approx(one / 2 + exchange_ms)

    def test_emulated_or_real(self, build: Any) -> None:
        """An emulated chip reaches more of its peak than a real one."""
        setting, chips = build.setting(), build.chip_class(tflops=0.001)
        real = replace(chips, emulated=False)
        assert unit_cost(setting, real, 0, ONE).forward_ms > unit_cost(setting, chips, 0, ONE).forward_ms

    def test_missing_peak(self, build: Any) -> None:
        """A chip without the precision is named, with what it could do."""
        chip = replace(build.chip_class().chip, tflops={"fp16": 1.0, "fp32": 1.0})
        assert missing_peak(chip, "bf16") == (
            "fast has no bf16 peak in the catalogue; `--set train.precision=fp32` would do"
        )


class TestUpdate:
    def test_bytes(self, build: Any) -> None:
        """The optimizer's step takes its bytes over the bandwidth, shared by those that shard it."""
        setting, chips = build.setting(), build.chip_class()
        whole = update_ms(setting, chips, (0, 1), ONE, 1)
        assert whole == pytest.approx(2 * unit_parameters(setting.shape, 0) * UPDATE_BYTES / 1e9)
        assert update_ms(setting, chips, (0, 1), ONE, 4) == pytest.approx(whole / 4)

    def test_experts_are_shared_by_fewer(self, build: Any) -> None:
        """Of 16 ranks that share the dense weights' update, EP 8 leaves two for the same experts."""
        setting, chips = build.setting("mixtral-8x7b"), build.chip_class()
        everywhere, experts = rank_parameters_apart(setting.shape, 0, ep=8)
        expected = (everywhere / 16 + experts / 2) * UPDATE_BYTES / 1e9
        assert update_ms(setting, chips, (0,), Way(ep=8), 16) == pytest.approx(expected)

    def test_unknown_bandwidth(self, build: Any) -> None:
        """A chip without a stated bandwidth is taken for a slow one, not an infinitely fast one."""
        chips = build.chip_class()
        slow = replace(chips, chip=replace(chips.chip, memory_gbytes_s=None))
        assert update_ms(build.setting(), slow, (0,), ONE, 1) > update_ms(build.setting(), chips, (0,), ONE, 1)


class TestMemory:
    def test_held_microbatches(self, build: Any) -> None:
        """Each micro-batch in flight adds the same activations."""
        setting = build.setting()
        one, two, three = (unit_gb(setting, build.chip_class(), 0, holding(held=held)) for held in (1, 2, 3))
        assert two - one == pytest.approx(three - two)
        assert two > one

    def test_less(self, build: Any) -> None:
        """TP, recompute and a sharded optimizer each take less."""
        setting = build.setting(sequence_length=512)
        whole = unit_gb(setting, build.chip_class(), 0, holding(held=4))
        for less in ({"tp": 2}, {"recompute": "full"}, {"optimizer_shards": 4}):
            assert unit_gb(setting, build.chip_class(), 0, holding(**{"held": 4, **less})) < whole

    def test_ends(self, build: Any) -> None:
        """First and last stages hold embedding and head besides; a real chip its runtime, too."""
        setting, chips = build.setting(), build.chip_class()
        inner, first = (ends_gb(setting, chips, first, False, holding()) for first in (False, True))
        message_gb = messages_gb(setting, True, False, holding())
        assert first - inner == pytest.approx(unit_gb(setting, build.chip_class(), EMBEDDING, holding()) - message_gb)
        real = replace(chips, emulated=False)
        assert ends_gb(setting, real, False, False, holding()) - inner == pytest.approx(RUNTIME_GB)

    def test_tied_embedding(self, build: Any) -> None:
        """A last stage that is not the first holds a copy of a tied embedding."""
        tied = build.setting(tied_embeddings=True)
        alone, copied = (ends_gb(tied, build.chip_class(), first, True, holding()) for first in (True, False))
        token_ids_gb = 64 * 8 * (1 + FRAGMENTATION) / 1e9
        message_gb = messages_gb(tied, False, True, holding())
        assert copied == pytest.approx(alone - token_ids_gb + message_gb)

    def test_gaps(self, build: Any) -> None:
        """What the allocator wastes is counted."""
        setting = build.setting()
        states = unit_parameters(setting.shape, 0) * (4 + 4 + 4 + 4 + 8)
        assert unit_gb(setting, build.chip_class(), 0, holding(held=0)) == pytest.approx(
            states * (1 + FRAGMENTATION) / 1e9
        )
