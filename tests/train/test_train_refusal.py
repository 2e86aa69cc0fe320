"""What the trainer refuses, each by name, before anything starts."""

import json
from dataclasses import replace

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.train.refusal import check_runnable
from support.phases import in_sites
from support.training import config, plan_of, replica, shape_of

TEXT = config(6)


def two_stages(**changes) -> Plan:
    """Plan two stages of three layers."""
    return replace(plan_of([replica([3, 3], 4)], TEXT), **changes)


def with_stage(**changes) -> Plan:
    """Change the second stage of a plan of two."""
    made = two_stages()
    first, second = made.replicas[0].stages
    return replace(made, replicas=(replace(made.replicas[0], stages=(first, replace(second, **changes))),))


def refused(plan: Plan, text: str = TEXT) -> str:
    """Give the text of the refusal."""
    with pytest.raises(BadInputError) as caught:
        check_runnable(plan, shape_of(text))
    return str(caught.value)


class TestRuns:
    """What is let through."""

    @pytest.mark.parametrize(
        "changes",
        [{}, {"schedule": "gpipe"}, {"schedule": "zero-bubble"}, {"zero_stage": 1}, {"precision": "bf16"}],
        ids=str,
    )
    def test_plain_plans(self, changes):
        """Schedules of one stage a rank, ZeRO 0 and 1, fp32 and bf16 are run."""
        check_runnable(two_stages(**changes), shape_of(TEXT))

    def test_interleaved(self):
        """Virtual stages are run with interleaved 1F1B."""
        made = plan_of([replica([1, 2, 1, 2], 4)], TEXT, schedule="interleaved", virtual=2)
        check_runnable(made, shape_of(TEXT))

    @pytest.mark.parametrize("zero", [0, 1])
    def test_phases(self, zero):
        """Gradients may cross sites by phases, the optimizer sharded inside each or not."""
        check_runnable(in_sites(plan_of([replica([6], 1)] * 3, TEXT, zero=zero), "aab"), shape_of(TEXT))

    def test_tp_beside_none(self):
        """Replicas may have different TP degrees."""
        check_runnable(plan_of([replica([3, 3], 2, tp=2), replica([6], 1)], TEXT), shape_of(TEXT))


class TestPlans:
    """Plans that need what is not there."""

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"schedule": "zbv"}, "schedule 'zbv' (it runs 1f1b, gpipe, interleaved, zero-bubble)"),
            ({"virtual_stages": 2}, "2 virtual stages with schedule 1f1b"),
            ({"schedule": "interleaved"}, "1 virtual stages with schedule interleaved"),
            ({"virtual_stages": 2, "schedule": "interleaved"}, "it needs several places"),
            ({"zero_stage": 3}, "ZeRO stage 3 (it runs 0 and 1)"),
            ({"precision": "fp8"}, "precision 'fp8'"),
            ({"reduce_dtype": "fp8"}, "exchanged in 'fp8'"),
            ({"global_batch_size": 9}, "replicas take 4 sequences, the global batch has 9"),
            ({"num_layers": 5}, "5 layers, the model has 6"),
            ({"tied_embeddings": True}, "tied embeddings"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_named(self, changes, said):
        """Each thing is named with the value got and what is allowed."""
        assert said in refused(two_stages(**changes))

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"cp": 2}, "context parallelism"),
            ({"ep": 2}, "expert parallelism"),
            ({"recompute": "selective"}, "selective recompute"),
            ({"ranks": ()}, "ranks are not bound"),
            ({"tp": 2, "ranks": (1, 2)}, "different TP degrees"),
            ({"first_layer": 6}, "layers"),
            ({"end_layer": 5}, "layers"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
    )
    def test_stages(self, changes, said):
        """What is wrong with one stage is named."""
        assert said in refused(with_stage(**changes))

    def test_few_microbatches(self):
        """1f1b with fewer micro-batches than stages names the schedule that runs."""
        assert "use gpipe" in refused(plan_of([replica([2, 2, 2], 2)], TEXT))

    def test_microbatches_that_do_not_interleave(self):
        """Interleaved takes micro-batches in groups of as many as there are places."""
        made = plan_of([replica([1, 2, 1, 2], 3)], TEXT, schedule="interleaved", virtual=2)
        assert "as many micro-batches, or a multiple" in refused(made)

    def test_rounds_of_zero_bubble(self):
        """With zero-bubble torch takes 5 micro-batches through 2 stages in 2 rounds, which leaves one over."""
        assert "deal into as many rounds" in refused(plan_of([replica([3, 3], 5)], TEXT, schedule="zero-bubble"))

    def test_virtual_stages_that_lie_apart(self):
        """Virtual stages of one place that were given ranks of their own are refused."""
        made = replace(plan_of([replica([1, 2, 1, 2], 4)], TEXT), schedule="interleaved", virtual_stages=2)
        assert "virtual stages of one place on different ranks" in refused(made)

    def test_descending_ranks_of_a_tp_group(self):
        """Ranks of a TP group that do not ascend would swap slices; they are refused."""
        made = plan_of([replica([6], 1, tp=2)], TEXT)
        stage = replace(made.replicas[0].stages[0], ranks=(1, 0))
        made = replace(made, replicas=(replace(made.replicas[0], stages=(stage,)),))
        assert "ascend" in refused(made)


class TestTensorParallel:
    """Degrees that do not divide the model."""

    def test_names_sizes_and_degrees(self):
        """Every size that 4 does not divide is named, with the degrees that divide all."""
        text = refused(plan_of([replica([6], 1, tp=4)], TEXT))
        assert "tensor parallelism 4 does not divide num_key_value_heads 2" in text
        assert "num_attention_heads" not in text
        assert text.endswith(": 1, 2")

    def test_several_degrees(self):
        """Where degrees 2 and 3 are mixed, both are named, for it is their common multiple that must divide."""
        text = refused(plan_of([replica([6], 1, tp=2), replica([6], 1, tp=3)], TEXT))
        assert "2 and 3" in text


class TestModels:
    """Models that the decoder is not."""

    def test_experts(self):
        """A mixture of experts is refused, naming what is run."""
        entry = json.loads(TEXT) | {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
        entry |= {"num_local_experts": 4, "num_experts_per_tok": 2}
        text = refused(two_stages(), json.dumps(entry))
        assert "mixture of experts" in text
        assert "llama" in text
