"""A plan as a configuration of torchtitan."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.plan.exports.torchtitan import export_torchtitan
from argosy.plan.exports.torchtitan_flavors import find_flavor
from support.exports import make_plan, make_replica, named_shape, read_torchtitan, split_of, torchtitan_split

LLAMA = named_shape("llama-3.1-8b")


class TestSplit:
    def test_a_pipeline(self) -> None:
        """Modules are named stage by stage; all micro-batches of a step are one local batch."""
        plan = make_plan(LLAMA, *[make_replica([7, 8, 9, 8], 12, 2, tp=2, cp=2)] * 3, zero_stage=1)
        text = export_torchtitan(plan, LLAMA)
        config = read_torchtitan(text)
        assert torchtitan_split(text) == split_of(plan)
        assert (config.training.local_batch_size, config.training.disable_cuda_graphs) == (24, True)
        assert config.parallelism.pipeline_parallel_schedule == "1F1B"

    def test_without_pipeline(self) -> None:
        """Micro-batches are accumulated, and the file says what that costs beside the plan."""
        plan = make_plan(LLAMA, *[make_replica([32], 5)] * 4)
        text = export_torchtitan(plan, LLAMA)
        assert torchtitan_split(text) == split_of(plan)
        assert read_torchtitan(text).training.local_batch_size == 1
        assert "Gradients are summed in each of 5 micro-batches; the plan counts it once a step" in text

    @pytest.mark.parametrize(
        ("schedule", "virtual_stages", "theirs"),
        [("gpipe", 1, "GPipe"), ("interleaved", 2, "Interleaved1F1B"), ("zero-bubble", 1, "InterleavedZeroBubble")],
    )
    def test_schedules(self, schedule: str, virtual_stages: int, theirs: str) -> None:
        """Schedules have the names of torch.distributed.pipelining; virtual stages are parts in the layers' order."""
        replica = make_replica([32 // (4 * virtual_stages)] * 4 * virtual_stages, 8)
        plan = make_plan(LLAMA, replica, schedule=schedule, virtual_stages=virtual_stages)
        config = read_torchtitan(export_torchtitan(plan, LLAMA))
        assert config.parallelism.pipeline_parallel_schedule == theirs
        assert len(config.parallelism.module_fqns_per_model_part) == 4 * virtual_stages

    @pytest.mark.parametrize(
        ("zero_stage", "degrees", "reshard"), [(0, (3, 1), "never"), (1, (1, 3), "never"), (3, (1, 3), "always")]
    )
    def test_sharding(self, zero_stage: int, degrees: tuple[int, int], reshard: str) -> None:
        """Without ZeRO replicas are replicated; with it they shard, and ZeRO-3 gathers weights anew each time."""
        plan = make_plan(LLAMA, *[make_replica([32], 1)] * 3, zero_stage=zero_stage)
        split = read_torchtitan(export_torchtitan(plan, LLAMA)).parallelism
        assert (split.data_parallel_replicate_degree, split.data_parallel_shard_degree) == degrees
        assert split.fsdp_reshard_after_forward == reshard

    def test_experts(self) -> None:
        """EP ranks are among the sharded ones."""
        shape = named_shape("qwen3-30b-a3b")
        plan = make_plan(shape, *[make_replica([24, 24], ep=4)] * 2, zero_stage=1)
        text = export_torchtitan(plan, shape)
        assert torchtitan_split(text) == split_of(plan)
        assert read_torchtitan(text).parallelism.data_parallel_shard_degree == 8


class TestModels:
    def test_positions_of_the_model_asked_for(self) -> None:
        """Llama 3 and 3.1 are one size with other positions: those of the model asked for are set."""
        ropes = []
        for name in ("llama-3-8b", "llama-3.1-8b"):
            shape = named_shape(name)
            config = read_torchtitan(export_torchtitan(make_plan(shape, make_replica([32])), shape))
            ropes.append([layer.attention.rope.scaling for layer in config.model_spec.model.layers])
        assert ropes == [["none"] * 32, ["llama"] * 32]

    @pytest.mark.parametrize("name", ["llama-3.1-405b", "llama-3.2-1b", "qwen3-0.6b", "qwen3-235b-a22b", "deepseek-v3"])
    def test_known_sizes(self, name: str) -> None:
        """The models that torchtitan comes with are found by their sizes."""
        shape = named_shape(name)
        assert find_flavor(shape).layers == shape.num_layers

    def test_unknown_sizes(self) -> None:
        """A model of other sizes is refused with the nearest and what differs."""
        with pytest.raises(BadInputError, match="nearest, llama3 8B, has vocabulary 128256 and not 9"):
            find_flavor(replace(LLAMA, vocab_size=9))

    def test_unknown_families(self) -> None:
        """A family that torchtitan doesn't have is refused with those it has."""
        with pytest.raises(BadInputError, match="no model of the family of gpt2; of ours it has deepseek_v3, llama"):
            find_flavor(named_shape("gpt2"))

    def test_another_torchtitan(self) -> None:
        """A torchtitan whose model has other layers stops, rather than to drop those that no stage names."""
        text = export_torchtitan(make_plan(LLAMA, make_replica([32])), LLAMA)
        assert "if len(model_spec.model.layers) != 32:\n        raise ValueError" in text


class TestRefusals:
    @pytest.mark.parametrize(
        ("replica", "fields", "reason"),
        [
            ({"tp": [2, 4]}, {}, "stages have TP 2 and TP 4"),
            ({"tp": 16}, {}, "TP 16 on num_key_value_heads 8"),
            ({"microbatches": 5}, {"schedule": "zero-bubble"}, "zero-bubble with 5 micro-batches through 2 stages"),
            ({"recompute": "selective"}, {}, "recompute of attention's scores alone"),
            ({"recompute": "full", "recompute_layers": 3}, {}, "recompute in 6 of 32 layers"),
            ({}, {"reduce_dtype": "bf16"}, "gradients summed in bf16"),
            ({"tp": 4, "cp": 2}, {"sequence_length": 4104}, "sequences of 4104 tokens"),
        ],
    )
    def test_by_name(self, replica: dict[str, Any], fields: dict[str, Any], reason: str) -> None:
        """What torchtitan has no word for is named."""
        with pytest.raises(BadInputError, match=f"torchtitan can't express this plan: {reason}"):
            export_torchtitan(make_plan(LLAMA, make_replica([16, 16], **replica), **fields), LLAMA)

    def test_multi_token_prediction(self) -> None:
        """DeepSeek-V3 is refused with its module for a further token, and taken without."""
        shape = named_shape("deepseek-v3")
        plan = make_plan(shape, make_replica([16, 15, 15, 15], ep=8))
        with pytest.raises(BadInputError, match="multi-token prediction; it takes models without it"):
            export_torchtitan(plan, shape)
        assert torchtitan_split(export_torchtitan(plan, replace(shape, mtp_modules=0))) == split_of(plan)

    def test_a_tied_embedding_on_a_pipeline(self) -> None:
        """Torchtitan ties weights on one stage alone."""
        shape = named_shape("llama-3.2-1b")
        with pytest.raises(BadInputError, match="a tied embedding on a pipeline"):
            export_torchtitan(make_plan(shape, make_replica([8, 8])), shape)
