"""What real chips take for a unit: laws of the roofline, and sums by hand of what a stage's chips send one another."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.fleet import ChipClass
from argosy.model.memory import rank_parameters
from argosy.plan.costs.alone import alone
from argosy.plan.costs.cost import IMPOSSIBLE, SHOWN_BESIDE, unit_cost
from argosy.plan.costs.curves import CURVES, PLAIN, Curve, curve_of
from argosy.plan.costs.inside import context_ms, expert_ms, passed_ms, tensor_ms
from argosy.plan.costs.program import MEGATRON_2022, Program
from argosy.plan.costs.setting import Setting, Way

WAYS = st.builds(
    Way,
    tp=st.sampled_from([1, 2, 4]),
    cp=st.sampled_from([1, 2]),
    ep=st.sampled_from([1, 2, 8]),
    microbatch_size=st.sampled_from([1, 2, 4]),
    recompute=st.sampled_from(["none", "selective", "full"]),
)
MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gpt2")


def real(build: Any, **more: Any) -> ChipClass:
    """Build a class of real chips in nodes of eight."""
    return build.chip_class(**{"emulated": False, "chips_per_node": 8, "nic_gbps": 800.0, "tflops": 100.0, **more})


def faster(chip_class: ChipClass, by: float) -> ChipClass:
    """Make everything of a class so many times faster."""
    chip = chip_class.chip
    sped = replace(
        chip,
        tflops={dtype: by * peak for dtype, peak in chip.tflops.items()},
        memory_gbytes_s=by * (chip.memory_gbytes_s or 0.0),
        scale_up_gbytes_s=by * (chip.scale_up_gbytes_s or 0.0),
    )
    return replace(chip_class, chip=sped, nic_gbps=by * chip_class.nic_gbps)


def setting_of(build: Any, model: str, **more: Any) -> Setting:
    """Build a setting of 2,048 tokens in bf16."""
    return replace(build.setting(model, sequence_length=2048, precision="bf16"), **more)


class TestLaws:
    @settings(deadline=None, derandomize=True)
    @given(model=st.sampled_from(MODELS), way=WAYS, emulated=st.booleans())
    def test_doubled_speeds_halve_the_work(self, build: Any, model: str, way: Way, emulated: bool) -> None:
        """A chip twice as fast in everything takes half as long for its own work on any unit."""
        setting, chips = setting_of(build, model), real(build, emulated=emulated)
        for unit in (-1, 0, setting.shape.num_layers - 1, setting.shape.num_layers):
            slow, fast = (alone(setting, c, unit, way) for c in (chips, faster(chips, 2.0)))
            assert fast.forward_ms == pytest.approx(slow.forward_ms / 2)
            assert fast.backward_ms == pytest.approx(slow.backward_ms / 2)
            assert fast.weight_ms == pytest.approx(slow.weight_ms / 2)

    @settings(deadline=None, derandomize=True)
    @given(model=st.sampled_from(MODELS), way=WAYS)
    def test_times_are_finite_and_weights_are_part_of_backward(self, build: Any, model: str, way: Way) -> None:
        """Every unit takes some time, and the weights' gradients no longer than the whole backward."""
        setting, chips = setting_of(build, model), real(build)
        for unit in (-1, 0, setting.shape.num_layers - 1, setting.shape.num_layers):
            cost = unit_cost(setting, chips, unit, way)
            assert 0 < cost.forward_ms < float("inf")
            assert 0 <= cost.weight_ms <= cost.backward_ms < float("inf")

    @settings(deadline=None, derandomize=True)
    @given(model=st.sampled_from(MODELS), way=WAYS)
    def test_more_recompute_takes_longer(self, build: Any, model: str, way: Way) -> None:
        """Selective recompute adds to a layer's backward, full recompute more; forward stays the same."""
        setting, chips = setting_of(build, model), real(build)
        costs = [unit_cost(setting, chips, 0, replace(way, recompute=how)) for how in ("none", "selective", "full")]
        backward = [cost.backward_ms for cost in costs]
        assert backward == sorted(backward)
        assert backward[0] < backward[2]
        assert len({cost.forward_ms for cost in costs}) == 1

    def test_context_parallelism_shares_the_tokens(self, build: Any) -> None:
        """Two CP ranks have half the products each."""
        setting, chips = setting_of(build, "llama-3-8b"), real(build)
        one, two = (alone(setting, chips, 0, Way(cp=cp)) for cp in (1, 2))
        assert two.weight_ms == pytest.approx(one.weight_ms / 2)
        assert two.attention_ms == pytest.approx(one.attention_ms / 2)

    def test_expert_parallelism_shares_weights_alone(self, build: Any) -> None:
        """EP ranks hold fewer experts and compute for as many tokens as before, for each has its own micro-batch."""
        setting, chips = setting_of(build, "mixtral-8x7b"), real(build)
        one, eight = (alone(setting, chips, 0, Way(ep=ep, microbatch_size=8)) for ep in (1, 8))
        assert eight.forward_ms == pytest.approx(one.forward_ms)
        assert rank_parameters(setting.shape, 0, ep=8) < rank_parameters(setting.shape, 0) / 4

    def test_written_scores_take_longer_than_fused_attention(self, build: Any) -> None:
        """A program that writes attention scores moves them through memory."""
        chips = real(build)
        fused, written = (
            alone(setting_of(build, "gpt2", program=Program(name="p", fused_attention=how)), chips, 0, Way()).forward_ms
            for how in (True, False)
        )
        assert written > fused


class TestInside:
    """Sums by hand for 2,048 tokens of 4,096 numbers of 2 bytes, at 100 GB/s in the node and 12.5 GB/s out of it."""

    activations = 2048 * 4096 * 2

    def asked(self, build: Any, unit: int = 0, model: str = "llama-3-8b", **way: int) -> tuple[Any, ...]:
        """Give the arguments that all share."""
        setting = setting_of(build, model)
        return setting.shape, setting.numerics, real(build), unit, setting.split(Way(**way))

    def test_tensor(self, build: Any) -> None:
        """A layer's two all-reduces send 2 (n-1)/n of the activations each, and pay 2 (n-1) delays."""
        expected = 2 * (2 * 3 / 4 * self.activations / 1e8 + 6 * 0.002)
        assert tensor_ms(*self.asked(build, tp=4)) == pytest.approx(expected)
        assert tensor_ms(*self.asked(build)) == 0

    def test_context(self, build: Any) -> None:
        """Each of n - 1 passes sends the rank's keys and values; a group larger than a node goes out of it."""
        block = 2048 / 2 * 8 * 256 * 2
        assert context_ms(*self.asked(build, cp=2)) == pytest.approx(block / 1e8 + 0.002)
        far = 15 * (2048 / 16 * 8 * 256 * 2 / 1.25e7 + 0.005)
        assert context_ms(*self.asked(build, cp=16)) == pytest.approx(far)
        assert context_ms(*self.asked(build, unit=32, cp=2)) == 0

    def test_experts(self, build: Any) -> None:
        """Tokens go to two experts and back; of 16 ranks half are out of the node, and the slower way counts."""
        near = 2 * (2 * self.activations * 7 / 8 / 1e8 + 0.002)
        assert expert_ms(*self.asked(build, model="mixtral-8x7b", ep=8)) == pytest.approx(near)
        far = 2 * (2 * self.activations * 8 / 16 / 1.25e7 + 0.005)
        assert expert_ms(*self.asked(build, model="mixtral-8x7b", ep=16)) == pytest.approx(far)
        for unit in (-1, 32):
            assert expert_ms(*self.asked(build, model="mixtral-8x7b", unit=unit, ep=8)) == 0

    def test_gathered_weights(self, build: Any) -> None:
        """A ring in a node takes its bytes over the scale-up link, and a delay for each other rank."""
        assert passed_ms(real(build), 1, 8, 1e8) == pytest.approx(1 + 7 * 0.002)

    def test_weights_gathered_through_nodes_use_all_their_ports(self, build: Any) -> None:
        """With TP 2, sixteen ranks of one slice are in four nodes, and each node gives its slice four ports."""
        assert passed_ms(real(build), 2, 16, 1e8) == pytest.approx(1e8 / (4 * 1.25e7) + 3 * 0.005 + 12 * 0.002)

    def test_norms_cut_along_the_sequence_gather_once_more(self, build: Any) -> None:
        """With sequence parallelism backward gathers each block's input again, beside products."""
        setting, chips = setting_of(build, "gpt2", program=MEGATRON_2022), real(build)
        way = Way(tp=2)
        own, cost = alone(setting, chips, 0, way), unit_cost(setting, chips, 0, way)
        tensor = tensor_ms(setting.shape, setting.numerics, chips, 0, setting.split(way)) / PLAIN.wires
        assert cost.backward_ms == pytest.approx(own.backward_ms + tensor * (1 + SHOWN_BESIDE / 2))

    def test_no_network_is_impossible(self, build: Any) -> None:
        """Without a network a group larger than its node takes forever, and the reason is kept."""
        setting = setting_of(build, "mixtral-8x7b")
        assert unit_cost(setting, real(build, nic_gbps=0.0), 0, Way(ep=16)) is IMPOSSIBLE
        assert "its network or its peak is 0" in next(iter(setting.missing))


class TestCurves:
    @pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.chips[0])
    def test_shares_are_shares_and_have_a_source(self, curve: Curve) -> None:
        """Every share lies between 0 and 1, and it is said where it comes from."""
        assert all(0 < share <= 1 for share in (curve.products, curve.attention, curve.memory, curve.wires))
        assert curve.source

    def test_families(self, build: Any) -> None:
        """A chip has the curve of its family, others the plain one, which is no better than any measured."""
        chip = build.chip_class().chip
        assert curve_of(replace(chip, name="h800-sxm")).chips[0] == "h100-"
        assert curve_of(chip) is PLAIN
        assert min(curve.products for curve in CURVES) >= PLAIN.products
