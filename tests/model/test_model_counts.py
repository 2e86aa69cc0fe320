"""Parameter counts against those of published checkpoints."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.counts import (
    active_parameters,
    parameters_by_kind,
    total_parameters,
    unit_parameters,
    unit_parameters_by_kind,
)
from argosy.model.flops import forward_flops_per_token
from argosy.model.memory import Split, activation_bytes
from argosy.model.named import config_text, named_configs
from argosy.model.numerics import numerics
from argosy.model.shape import ModelShape
from argosy.model.tensors import KINDS, unit_weights

# Totals of the published checkpoints; each was also counted on transformers' own model of the same configuration.
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "smollm2-135m": 134_515_008,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-neo-2.7b": 2_651_307_520,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "opt-30b": 29_974_540_288,
}


def shape_of(name: str) -> ModelShape:
    """Read a named configuration."""
    return read_config(*config_text(name))


class TestTotals:
    @pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
    def test_published_total(self, name: str, total: int) -> None:
        """The count is exactly that of the published checkpoint."""
        assert total_parameters(shape_of(name)) == total

    @given(st.sampled_from(named_configs()))
    def test_kinds_and_units_add_up(self, name: str) -> None:
        """Counts by kind and by unit both sum to the total."""
        shape = shape_of(name)
        by_kind = parameters_by_kind(shape)
        assert sum(by_kind.values()) == total_parameters(shape)
        assert list(by_kind) == [kind for kind in KINDS if kind in by_kind]
        for unit in (-1, 0, shape.num_layers):
            assert sum(unit_parameters_by_kind(shape, unit).values()) == unit_parameters(shape, unit)

    def test_kinds_of_llama_3_8b(self) -> None:
        """Every kind has the count that its matrices give by hand."""
        layers, hidden, wide = 32, 4096, 14336
        assert parameters_by_kind(shape_of("llama-3-8b")) == {
            "embedding": 128256 * hidden,
            "attention": layers * (2 * hidden * hidden + 2 * hidden * 1024),
            "mlp": layers * 3 * hidden * wide,
            "norms": (2 * layers + 1) * hidden,
            "head": 128256 * hidden,
        }

    def test_tied_head_counts_once(self) -> None:
        """A tied head has its norm alone; the table is in the embedding."""
        shape = shape_of("qwen2.5-0.5b")
        assert unit_parameters(shape, shape.num_layers) == 896
        assert unit_parameters(shape, -1) == 151936 * 896


class TestActive:
    @pytest.mark.parametrize(
        ("name", "billions"),
        [("mixtral-8x7b", 12.9), ("deepseek-v3", 37.6), ("qwen3-30b-a3b", 3.4), ("qwen3-235b-a22b", 22.2)],
    )
    def test_mixtures_are_as_active_as_published(self, name: str, billions: float) -> None:
        """Mixtral says 12.9 B active, DeepSeek-V3 37 B, Qwen3 3.3 B and 22 B."""
        assert round(active_parameters(shape_of(name)) / 1e9, 1) == billions

    def test_dense_models_are_all_active(self) -> None:
        """Without experts every parameter works on every token."""
        shape = shape_of("gpt2")
        assert active_parameters(shape) == total_parameters(shape)


class TestUnits:
    @pytest.mark.parametrize("unit", [-2, 5, 99])
    def test_no_such_unit(self, unit: int) -> None:
        """A unit out of range is refused with those there are."""
        with pytest.raises(BadInputError, match=rf"tiny: no unit {unit}; there are -1 \(embedding\), 0..3"):
            unit_weights(shape_of("tiny"), unit)


@pytest.mark.reference
class TestMeasured:
    @pytest.mark.parametrize(
        ("name", "theirs"), [("opt-350m", "OPT-350"), ("opt-30b", "OPT-30"), ("gpt-neo-2.7b", "GPT-Neo-2.7")]
    )
    def test_layers_profiled_elsewhere(self, reference_data: Path, name: str, theirs: str) -> None:
        """Sailor's profiles of the same models name the same parameters a layer (their GPT-Neo adds biases)."""
        profiled = json.loads((reference_data / "planner/sailor/llm_info.json").read_text())
        layer = profiled[theirs]["1"]["1"]
        assert unit_parameters(shape_of(name), 1) == pytest.approx(layer["params_floats"], rel=2e-4)


class TestMultiTokenPrediction:
    def test_published_counts_leave_it_out(self) -> None:
        """DeepSeek-V3's module has a layer, a joining matrix and three norms; embedding and head are the model's."""
        shape = read_config(*config_text("deepseek-v3"))
        hidden = shape.hidden_size
        module = sum(weight.parameters for weight in unit_weights(shape, 61) if weight.extra)
        assert module == unit_parameters(shape, 60) + 2 * hidden * hidden + 3 * hidden
        assert total_parameters(shape) == PUBLISHED["deepseek-v3"]

    def test_times_and_bytes_count_it_with_the_head(self) -> None:
        """The head with a module takes the FLOPs of a layer and of another head besides, and keeps more."""
        shape = read_config(*config_text("deepseek-v3"))
        plain = replace(shape, mtp_modules=0)
        flops, without = (forward_flops_per_token(s, 61, 4096) for s in (shape, plain))
        joining = 2 * 2 * shape.hidden_size**2
        assert flops - without == without + forward_flops_per_token(shape, 60, 4096) + joining
        split = Split(microbatch_size=1, sequence_length=128)
        kept, kept_without = (activation_bytes(s, 61, numerics("bf16"), split) for s in (shape, plain))
        assert kept > kept_without + activation_bytes(shape, 60, numerics("bf16"), split)

    def test_models_without_have_none(self) -> None:
        """Other models have no such weights."""
        shape = read_config(*config_text("llama-3-8b"))
        assert not any(weight.extra for unit in shape.units for weight in unit_weights(shape, unit))
