"""Vocabularies that TP does not divide: padded where the program pads, and priced so."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.plan import EMBEDDING, GRADIENT_BYTES
from argosy.model.flops import weight_flops_per_token
from argosy.plan.costs.cost import unit_cost
from argosy.plan.costs.memory import Holding, state_gb
from argosy.plan.costs.program import MEGATRON_CORE
from argosy.plan.costs.rings import gradient_bytes
from argosy.plan.costs.setting import Setting, Way
from argosy.plan.exports.formats import FORMATS
from argosy.plan.forms import FORMS
from argosy.plan.planner import plan_job

ROWS, HIDDEN, POSITIONS = 50257, 768, 1024
PADDED = {1: 50304, 2: 50432, 8: 51200}


@pytest.fixture(scope="module")
def setting(build: Any) -> Setting:
    """GPT-2, as Megatron Core trains it."""
    return replace(build.setting("gpt2", 1024, "bf16"), program=MEGATRON_CORE)


class TestPadding:
    @pytest.mark.parametrize("tp", PADDED)
    def test_memory(self, setting: Setting, tp: int) -> None:
        """A rank holds its part of the padded table, 18 bytes a number, and all learned positions."""
        numbers = PADDED[tp] // tp * HIDDEN + POSITIONS * HIDDEN
        assert state_gb(setting, EMBEDDING, Holding(way=Way(tp=tp), held=0)) == pytest.approx(numbers * 18 * 1.04 / 1e9)

    @pytest.mark.parametrize("tp", PADDED)
    def test_gradients(self, setting: Setting, tp: int) -> None:
        """All rows of the padded table have gradients to sum."""
        dense, experts = gradient_bytes(setting, EMBEDDING, tp)
        assert (dense, experts) == ((PADDED[tp] + POSITIONS) * HIDDEN * GRADIENT_BYTES, 0)

    def test_time(self, setting: Setting, build: Any) -> None:
        """An emulated head takes as long as its padded rows do."""
        chip_class = build.chip_class(chips_per_node=8)
        head = setting.shape.num_layers
        found = unit_cost(setting, chip_class, head, Way()).forward_ms
        flops = weight_flops_per_token(replace(setting.shape, vocab_size=PADDED[1]), head) * 1024
        assert found == pytest.approx(flops / (4e9 * 0.8))

    def test_the_trainer_does_not(self, build: Any) -> None:
        """Argosy's own trainer trains the vocabulary as it is."""
        assert build.setting("gpt2").cut_shape(1).vocab_size == ROWS


@pytest.mark.slow
class TestPlans:
    def test_tp_for_an_odd_vocabulary(self, build: Any) -> None:
        """A model of 175 billion parameters with 50,257 tokens is cut by TP, and Megatron-LM is told the padding."""
        chip_class = build.chip_class(tflops=78.0, memory_gb=80.0, chips_per_node=8, nodes=16, nic_gbps=1600.0)
        job = build.job("gpt3-175b", sequence_length=2048, global_batch_size=128, precision="bf16")
        shape = build.shape("gpt3-175b")
        plan = plan_job(job, shape, [chip_class], [], form=FORMS["megatron"])[0]
        assert plan.replicas[0].stages[0].tp > 1
        text = FORMATS["megatron"](plan, shape, None)
        assert "--vocab-size 50257\n    --make-vocab-size-divisible-by 128\n" in text
