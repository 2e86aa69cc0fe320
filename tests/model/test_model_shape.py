"""What a shape says of itself, and what the trainer can't run of it."""

import dataclasses

import pytest

from argosy.model.config import read_config
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape, trainer_refusal


def shape_of(name: str, **changes: object) -> ModelShape:
    """Read a named configuration, with other values for fields of the shape."""
    return dataclasses.replace(read_config(*config_text(name)), **changes)  # type: ignore[arg-type]


class TestShape:
    @pytest.mark.parametrize("name", named_configs())
    def test_is_hashable_and_equal_to_itself_read_again(self, name: str) -> None:
        """Reading twice gives equal shapes with one hash, so results can be kept by shape."""
        assert shape_of(name) == shape_of(name)
        assert hash(shape_of(name)) == hash(shape_of(name))

    def test_units_run_from_embedding_to_head(self) -> None:
        """Units are -1, the layers, and one more for the head."""
        assert list(shape_of("tiny").units) == [-1, 0, 1, 2, 3, 4]


class TestTrainerRefusal:
    @pytest.mark.parametrize(
        "name", ["tiny", "demo", "llama-3-8b", "llama-3.1-8b", "mistral-7b", "qwen2.5-7b", "qwen3-8b"]
    )
    def test_runs_dense_families(self, name: str) -> None:
        """Llama (also with Llama 3.1's positions), Mistral, Qwen2 and Qwen3 run."""
        assert trainer_refusal(shape_of(name)) is None

    @pytest.mark.parametrize(
        ("name", "what"),
        [
            ("mixtral-8x7b", "a mixture of experts"),
            ("deepseek-v3", "a mixture of experts"),
            ("gpt2", "the family gpt2"),
            ("opt-350m", "the family opt"),
        ],
    )
    def test_refuses_by_name(self, name: str, what: str) -> None:
        """What it can't run is named, with what it can."""
        refusal = trainer_refusal(shape_of(name)) or ""
        assert refusal.startswith(f"{name}: the trainer can't run {what}; it runs dense models of the families llama")

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            ({"rope_scaling": {"rope_type": "yarn"}}, "rotary positions rescaled by 'yarn', only by 'llama3'"),
            ({"rope_share": 0.5}, "rotary positions on 0.5 of each head"),
            ({"mlp_bias": True}, "biases on the output or MLP projections"),
        ],
    )
    def test_refuses_variants(self, changes: dict[str, object], what: str) -> None:
        """A supported family in an unsupported variant is refused for the variant."""
        assert what in (trainer_refusal(shape_of("tiny", **changes)) or "")
