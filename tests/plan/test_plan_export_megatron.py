"""A plan as Megatron-LM's arguments."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.megatron import export_megatron, layout
from argosy.plan.exports.model_arguments import model_arguments, runs
from support.exports import (
    layout_counts,
    make_plan,
    make_replica,
    megatron_split,
    named_shape,
    read_megatron,
    split_of,
)

LLAMA = named_shape("llama-3-8b")


def exported(plan: Plan, shape: ModelShape = LLAMA) -> dict[str, Any]:
    """Export and read back."""
    return read_megatron(export_megatron(plan, shape))


class TestLayout:
    def test_written(self) -> None:
        """Like stages in a row are written once; embedding and head stand at the ends."""
        assert layout([7, *[8] * 14, 7]) == "Et*7|(t*8|)*14,t*7L"
        assert layout([1, 2]) == "Et|t*2L"
        assert layout([3]) == "Et*3L"

    @given(st.lists(st.integers(1, 12), min_size=1, max_size=24))
    def test_read_back(self, counts: list[int]) -> None:
        """Megatron-LM's own reading of a layout gives back every stage's layers."""
        assert layout_counts(layout(counts)) == counts


class TestSplit:
    @pytest.mark.parametrize(
        ("counts", "arguments"),
        [
            ([8, 8, 8, 8], {}),
            ([6, 10, 10, 6], {"decoder-first-pipeline-num-layers": "6", "decoder-last-pipeline-num-layers": "6"}),
            ([15, 17], {"decoder-first-pipeline-num-layers": "15", "decoder-last-pipeline-num-layers": "17"}),
            ([7, 8, 9, 8], {"pipeline-model-parallel-layout": "Et*7|t*8|t*9|t*8L"}),
        ],
    )
    def test_the_plainest_words_are_taken(self, counts: list[int], arguments: dict[str, str]) -> None:
        """Nothing where layers divide evenly, the ends' counts where those suffice, else the whole layout."""
        values = exported(make_plan(LLAMA, make_replica(counts)))
        ways = ("decoder-", "pipeline-model-parallel-layout")
        assert {name: value for name, value in values.items() if name.startswith(ways)} == arguments

    def test_multi_token_prediction(self) -> None:
        """A module for a further token stands with the head, also where the layout is said."""
        shape = named_shape("deepseek-v3")
        values = exported(make_plan(shape, make_replica([15, 16, 14, 16], ep=8)), shape)
        assert values["mtp-num-layers"] == "1"
        assert values["pipeline-model-parallel-layout"] == "Et*15|t*16|t*14|t*16mL"

    def test_no_layer_is_lost(self) -> None:
        """30 layers on 4 stages stay 30: the layout says who has 8 and who 7."""
        shape = replace(LLAMA, num_layers=30)
        text = export_megatron(make_plan(shape, make_replica([8, 8, 7, 7])), shape)
        assert layout_counts(read_megatron(text)["pipeline-model-parallel-layout"]) == [8, 8, 7, 7]

    def test_virtual_stages(self) -> None:
        """Even virtual stages are counted, uneven ones laid out; stage i sits on rank i mod depth as in a plan."""
        even = make_plan(LLAMA, make_replica([4] * 8, 8), virtual_stages=2)
        uneven = make_plan(LLAMA, make_replica([3, 4, 4, 5] * 2, 8), virtual_stages=2)
        assert exported(even)["num-virtual-stages-per-pipeline-rank"] == "2"
        assert exported(uneven)["pipeline-model-parallel-layout"] == "Et*3|(t*4|)*2,t*5|t*3|(t*4|)*2,t*5L"
        assert exported(uneven)["pipeline-model-parallel-size"] == "4"

    def test_experts(self) -> None:
        """EP is said with the TP degree that cuts the experts; its ranks count as data-parallel ones."""
        shape = named_shape("mixtral-8x7b")
        plan = make_plan(shape, *[make_replica([16, 16], tp=2, ep=4)] * 3, zero_stage=1)
        values = exported(plan, shape)
        assert (values["expert-model-parallel-size"], values["expert-tensor-parallel-size"]) == ("4", "2")
        assert megatron_split(export_megatron(plan, shape)) == split_of(plan)

    @pytest.mark.parametrize(
        ("zero_stage", "strategy"), [(0, None), (1, None), (2, "optim_grads"), (3, "optim_grads_params")]
    )
    def test_sharding(self, zero_stage: int, strategy: str | None) -> None:
        """ZeRO 1 is the distributed optimizer, 2 and 3 are Megatron's FSDP."""
        values = exported(make_plan(LLAMA, *[make_replica([32])] * 2, zero_stage=zero_stage))
        assert values.get("use-distributed-optimizer", False) == (zero_stage > 0)
        assert values.get("data-parallel-sharding-strategy") == strategy
        assert values["overlap-grad-reduce"]

    def test_environment(self) -> None:
        """TP and CP need one queue of kernels, which Megatron's FSDP forbids."""
        wide = make_plan(LLAMA, *[make_replica([32], tp=2)] * 2)
        told = [export_megatron(plan, LLAMA) for plan in (wide, replace(wide, zero_stage=3))]
        assert ["CUDA_DEVICE_MAX_CONNECTIONS" in text for text in told] == [True, False]

    def test_nothing_to_shard_over(self) -> None:
        """A lone rank shards nothing, and Megatron-LM would refuse the words for it."""
        values = exported(make_plan(LLAMA, make_replica([32]), zero_stage=3))
        assert not {"use-distributed-optimizer", "use-megatron-fsdp", "overlap-param-gather"} & set(values)


class TestRecompute:
    def words(self, **stage: Any) -> tuple[Any, ...]:
        """Give what is said of recompute in stages of 8, 8, 10 and 6 layers."""
        values = exported(make_plan(LLAMA, make_replica([8, 8, 10, 6], **stage)))
        return tuple(values.get(f"recompute-{name}") for name in ("granularity", "method", "num-layers"))

    def test_all_or_none(self) -> None:
        """Full recompute of all layers is uniform, one layer at a time; selective drops attention's scores."""
        assert self.words() == (None, None, None)
        assert self.words(recompute="full") == ("full", "uniform", "1")
        assert self.words(recompute="selective") == ("selective", None, None)

    def test_a_part(self) -> None:
        """The first so many layers of every stage are a block; shorter stages recompute all they have."""
        assert self.words(recompute="full", recompute_layers=4) == ("full", "block", "4")
        assert self.words(recompute="full", recompute_layers=[8, 8, 8, 6]) == ("full", "block", "8")

    def test_by_stage(self) -> None:
        """What differs by stage is refused, with what each stage would recompute."""
        with pytest.raises(BadInputError, match=r"recompute by stage 8 full\+0 none\+2 full\+0 none; it takes one way"):
            self.words(recompute=["full", "none", "full", "none"], recompute_layers=[None, None, 2, None])


class TestModels:
    @pytest.mark.parametrize(
        ("name", "has", "lacks"),
        [
            ("llama-3.1-8b", {"use-rope-scaling": True, "rope-scaling-factor": "8.0"}, "add-qkv-bias"),
            ("qwen2.5-7b", {"add-qkv-bias": True, "disable-bias-linear": True}, "kv-channels"),
            ("qwen3-30b-a3b", {"kv-channels": "128", "qk-layernorm": True, "num-experts": "128"}, "moe-layer-freq"),
            ("gpt2-xl", {"position-embedding-type": "learned_absolute", "vocab-size": "50257"}, "disable-bias-linear"),
            ("mistral-7b", {"num-query-groups": "8"}, "window-attn-skip-freq"),
            (
                "deepseek-v3",
                {
                    "multi-latent-attention": True,
                    "kv-lora-rank": "512",
                    "moe-layer-freq": "([0]*3+[1]*58)",
                    "moe-router-enable-expert-bias": True,
                    "rotary-scaling-factor": "40.0",
                },
                "kv-channels",
            ),
        ],
    )
    def test_said(self, name: str, has: dict[str, Any], lacks: str) -> None:
        """Sizes, positions, biases, latent attention and experts are said; what is Megatron-LM's default is not."""
        shape = named_shape(name)
        values = exported(make_plan(shape, make_replica([shape.num_layers]), sequence_length=1024), shape)
        assert has.items() <= values.items()
        assert lacks not in values

    def test_windows(self) -> None:
        """A window of 4,096 tokens, itself included, is 4,095 to the left; layers without one are listed."""
        shape = replace(LLAMA, num_layers=4, windows=(4096, None, 4096, 4096))
        said = model_arguments(shape, 8192, "Megatron-LM")
        assert (said["window-size"], said["window-attn-skip-freq"]) == ("(4095,0)", "([1]*1+[0]*1+[1]*2)")

    @given(st.lists(st.booleans(), min_size=1, max_size=20))
    def test_lists(self, values: list[bool]) -> None:
        """A written list evaluates to what it was."""
        assert [bool(value) for value in eval(runs(values))] == values

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("opt-1.3b", "the activation relu"),
            ("gpt-neox-20b", "attention and MLP of a layer in parallel"),
            ("gpt-neo-2.7b", "biases on the attention's output and the MLP alone"),
        ],
    )
    def test_refused(self, name: str, reason: str) -> None:
        """A model that no arguments describe is refused by what it has."""
        with pytest.raises(BadInputError, match=f"Megatron-LM has no arguments for {name}: {reason}"):
            model_arguments(named_shape(name), 1024, "Megatron-LM")

    def test_odd_positions(self) -> None:
        """Positions rescaled in another way than Megatron-LM fixes are refused, not rounded."""
        odd = replace(LLAMA, rope_scaling={"rope_type": "llama3", "factor": 8.0, "high_freq_factor": 5.0})
        with pytest.raises(BadInputError, match=r"rotary positions rescaled by .* it has llama3 with"):
            model_arguments(odd, 1024, "Megatron-LM")


class TestRefusals:
    @pytest.mark.parametrize(
        ("replica", "fields", "reason"),
        [
            ({"tp": [2, 4]}, {}, "stages have TP 2 and TP 4"),
            ({}, {"schedule": "gpipe"}, "schedule gpipe"),
            ({}, {"schedule": "zero-bubble"}, "schedule zero-bubble"),
            ({"tp": 3}, {}, "TP 3 on num_attention_heads 32"),
            ({"cp": 3}, {}, "CP 3 on 4096 tokens"),
            ({}, {"precision": "fp8"}, "precision fp8"),
            ({}, {"precision": "fp32", "reduce_dtype": "bf16"}, "gradients summed in bf16 beside fp32"),
        ],
    )
    def test_by_name(self, replica: dict[str, Any], fields: dict[str, Any], reason: str) -> None:
        """What Megatron-LM has no argument for is named."""
        with pytest.raises(BadInputError, match=f"Megatron-LM can't express this plan: {reason}"):
            export_megatron(make_plan(LLAMA, make_replica([16, 16], **replica), **fields), LLAMA)
