"""Bytes against the formulas of arXiv 2205.05198 and against what the trainer's decoder really keeps."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.counts import unit_parameters
from argosy.model.memory import (
    Split,
    activation_bytes,
    boundary_bytes,
    copied_embedding_bytes,
    rank_parameters,
    state_bytes,
    workspace_bytes,
)
from argosy.model.named import config_text, named_configs
from argosy.model.numerics import MEGATRON, Numerics, numerics
from argosy.model.shape import ModelShape
from argosy.model.tensors import unit_weights

BF16, FP32 = numerics("bf16"), numerics("fp32")


def shape_of(name: str, **changes: object) -> ModelShape:
    """Read a named configuration, with other values for fields of the shape."""
    return dataclasses.replace(read_config(*config_text(name)), **changes)  # type: ignore[arg-type]


def split(tp: int = 1, *, batch: int = 1, length: int = 2048, sequence_parallel: bool = False) -> Split:
    """Make a layout of one micro-batch."""
    return Split(microbatch_size=batch, sequence_length=length, tp=tp, sequence_parallel=sequence_parallel)


class TestKorthikanti:
    """One layer of GPT-3 (h 12288, a 96, s 2048), table 2 of the paper; s b h is the number of tokens times h."""

    sbh = 2048 * 12288
    scores = 5 * 96 * 2048 / 12288

    def layer(self, how: Split, recompute: str = "none") -> int:
        """Give our bytes of one layer."""
        return activation_bytes(shape_of("gpt3-175b"), 1, MEGATRON, how, recompute)

    def test_one_rank(self) -> None:
        """Without parallelism a layer keeps sbh (34 + 5 a s / h)."""
        assert self.layer(split()) == self.sbh * (34 + self.scores)

    def test_tensor_parallel(self) -> None:
        """TP leaves 10 of the 34 whole: sbh (10 + 24/t + 5 a s / h t)."""
        assert self.layer(split(8)) == self.sbh * (10 + 24 / 8 + self.scores / 8)

    def test_sequence_parallel(self) -> None:
        """With sequence parallelism all of it is cut: sbh / t (34 + 5 a s / h)."""
        assert self.layer(split(8, sequence_parallel=True)) == self.sbh / 8 * (34 + self.scores)

    def test_selective_recompute(self) -> None:
        """Selective recompute drops the scores: sbh (10 + 24/t)."""
        assert self.layer(split(8), "selective") == self.sbh * (10 + 24 / 8)

    def test_fused_activation(self) -> None:
        """A fused SwiGLU keeps gate, up and product: one array of the MLP's width less."""
        shape, fused = shape_of("llama-3-8b"), dataclasses.replace(MEGATRON, fused_activation=True)
        plain, less = (activation_bytes(shape, 1, kept, split()) for kept in (MEGATRON, fused))
        assert plain - less == 2048 * 14336 * 2

    def test_full_recompute(self) -> None:
        """Full recompute keeps the layer's input: 2 sbh."""
        assert self.layer(split(8), "full") == 2 * self.sbh


class TestState:
    def test_trainer_keeps_fp32(self) -> None:
        """Parameters, gradients, flat buffers and two moments are fp32, whatever the precision computed in."""
        for kept in (BF16, FP32):
            state = state_bytes(shape_of("tiny"), 0, kept)
            count = unit_parameters(shape_of("tiny"), 0)
            assert (state.weights, state.gradients, state.optimizer) == (4 * count, 4 * count, 8 * count)
            assert state.total == 24 * count

    def test_megatron_keeps_eighteen_bytes(self) -> None:
        """Mixed precision with fp32 gradients is 2 + 4 + 12 bytes a parameter."""
        state = state_bytes(shape_of("tiny"), 0, MEGATRON)
        assert state.total == 18 * unit_parameters(shape_of("tiny"), 0)

    def test_sharding_divides_moments_alone(self) -> None:
        """ZeRO-1 over four ranks quarters the optimizer and leaves weights and gradients."""
        shape = shape_of("tiny")
        one, four = state_bytes(shape, 0, MEGATRON), state_bytes(shape, 0, MEGATRON, optimizer_shards=4)
        assert (four.weights, four.gradients, four.optimizer * 4) == (one.weights, one.gradients, one.optimizer)

    def test_sharded_exchange_has_buffers_to_gather(self) -> None:
        """The trainer's sharded exchange holds a flat and a gathered copy, and two shards beside."""
        count = unit_parameters(shape_of("tiny"), 0)
        state = state_bytes(shape_of("tiny"), 0, BF16, optimizer_shards=4)
        assert state.buffers == 4 * count * 2 + 4 * count * 2 // 4
        assert state.optimizer == 8 * count // 4

    def test_last_stage_copies_a_tied_embedding(self) -> None:
        """A tied table is held twice where embedding and head stand apart, an untied one is not."""
        tied = copied_embedding_bytes(shape_of("qwen2.5-0.5b"), BF16)
        assert tied.weights == 4 * 151936 * 896
        assert copied_embedding_bytes(shape_of("llama-3-8b"), BF16).total == 0

    @given(st.sampled_from(named_configs()), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 8]))
    def test_ranks_together_hold_the_model(self, name: str, tp: int, ep: int) -> None:
        """All ranks of a group hold at least the model, and one rank at most all of it."""
        shape = shape_of(name)
        held = sum(rank_parameters(shape, unit, tp, ep) for unit in shape.units)
        whole = sum(weight.parameters for unit in shape.units for weight in unit_weights(shape, unit))
        assert whole / (tp * ep) <= held <= whole

    def test_more_ranks_than_key_heads(self) -> None:
        """Keys and values can't be cut below one head a rank."""
        shape = shape_of("tiny")
        by_two = rank_parameters(shape, 0, 2)
        assert rank_parameters(shape, 0, 4) == by_two - 64 * 64 * 2 // 4 - 3 * 64 * 128 // 4

    @pytest.mark.parametrize(("tp", "ep", "shards"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
    def test_degrees_start_at_one(self, tp: int, ep: int, shards: int) -> None:
        """A degree below 1 is refused."""
        with pytest.raises(BadInputError, match="expected 1 or more"):
            state_bytes(shape_of("tiny"), 0, BF16, tp=tp, ep=ep, optimizer_shards=shards)


class TestActivations:
    def test_boundary_is_one_hidden_state(self) -> None:
        """Between stages travel b s h numbers of the dtype computed in."""
        assert boundary_bytes(shape_of("tiny"), BF16, split(batch=3, length=10)) == 3 * 10 * 64 * 2
        assert boundary_bytes(shape_of("tiny"), FP32, split(batch=3, length=10)) == 3 * 10 * 64 * 4

    @given(st.sampled_from(named_configs()), st.sampled_from(["bf16", "fp32"]), st.integers(1, 500))
    def test_recompute_and_splitting_never_add(self, name: str, precision: str, length: int) -> None:
        """More recompute or more ranks never keep more."""
        shape, kept = shape_of(name), numerics(precision)
        for unit in (-1, 0, shape.num_layers):
            ways = [
                activation_bytes(shape, unit, kept, split(length=length), way) for way in ("none", "selective", "full")
            ]
            assert ways == sorted(ways, reverse=True)
            assert activation_bytes(shape, unit, kept, split(2, length=length)) <= ways[0]

    def test_logits_outweigh_a_layer(self) -> None:
        """Llama-3's head keeps 6 bytes a logit in bf16, and works with 8 more."""
        shape, how = shape_of("llama-3-8b"), split(length=8192)
        assert activation_bytes(shape, 32, BF16, how) > 6 * 8192 * 128256
        assert workspace_bytes(shape, 32, BF16, how) == 8 * 8192 * 128256

    def test_recomputed_layer_needs_room_once(self) -> None:
        """Full recompute moves a layer's activations to the workspace."""
        shape, how = shape_of("tiny"), split()
        extra = workspace_bytes(shape, 0, BF16, how, "full") - workspace_bytes(shape, 0, BF16, how)
        assert extra == activation_bytes(shape, 0, BF16, how)

    def test_unknown_precision_and_recompute(self) -> None:
        """Words that name nothing are refused with those that do."""
        with pytest.raises(BadInputError, match="precision: got 'bf6'; expected fp32 or bf16; did you mean bf16"):
            numerics("bf6")
        with pytest.raises(BadInputError, match="recompute: got 'some'"):
            activation_bytes(shape_of("tiny"), 0, BF16, split(), "some")


@pytest.mark.reference
class TestMeasured:
    @pytest.mark.parametrize(("name", "theirs"), [("opt-350m", "OPT-350"), ("opt-30b", "OPT-30")])
    @pytest.mark.parametrize("tp", [1, 2, 4])
    def test_activations_profiled_elsewhere(self, reference_data: Path, name: str, theirs: str, tp: int) -> None:
        """Sailor measured OPT layers with unfused attention in fp32; its tables leave out the layer's own input."""
        unfused = Numerics(name="unfused", compute_bytes=4, norm_bytes=8, statistic_bytes=0, score_bytes=4)
        profiled = json.loads((reference_data / "planner/sailor/llm_info.json").read_text())[theirs]
        shape = shape_of(name)
        ours = activation_bytes(shape, 1, unfused, split(tp)) - 2048 * shape.hidden_size * 4
        assert ours == pytest.approx(profiled[str(tp)]["1"]["act_mem_bytes"], rel=0.01)
