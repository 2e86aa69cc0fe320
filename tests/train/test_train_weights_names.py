"""Names and shapes of the decoder's parameters."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.counts import total_parameters
from argosy.model.named import config_text
from argosy.model.shape import ModelShape
from argosy.train.decoder import StageModel
from argosy.train.weights.names import from_hf, parameter_shapes, to_hf

NAMED = ("llama-3-8b", "mistral-7b", "qwen2.5-7b", "qwen2.5-0.5b", "qwen3-8b", "demo", "tiny")


def shape_of(name: str) -> ModelShape:
    """Read a named model's shape."""
    return read_config(*config_text(name))


class TestNames:
    @pytest.mark.parametrize(
        ("ours", "hf"),
        [
            ("embedding.weight", "model.embed_tokens.weight"),
            ("layers.12.attention.q.bias", "model.layers.12.self_attn.q_proj.bias"),
            ("layers.0.attention.k_norm.weight", "model.layers.0.self_attn.k_norm.weight"),
            ("layers.3.mlp_norm.weight", "model.layers.3.post_attention_layernorm.weight"),
            ("layers.3.mlp.down.weight", "model.layers.3.mlp.down_proj.weight"),
            ("norm.weight", "model.norm.weight"),
            ("head.weight", "lm_head.weight"),
        ],
    )
    def test_translate(self, ours: str, hf: str) -> None:
        """Each name has one counterpart, both ways."""
        assert to_hf(ours) == hf
        assert from_hf(hf) == ours

    @pytest.mark.parametrize("name", NAMED)
    def test_round_trip(self, name: str) -> None:
        """Every parameter of every model comes back to its own name."""
        names = list(parameter_shapes(shape_of(name)))
        assert [from_hf(to_hf(name)) for name in names] == names

    @given(
        name=st.text(max_size=30)
        | st.sampled_from(["layers.x.mlp.up.weight", "layers.1.norm.weight", "layers.1", "layers.٣.mlp.up.weight"])
    )
    @settings(derandomize=True, deadline=None)
    def test_refuses_unknown_names(self, name: str) -> None:
        """A name that the decoder lacks is refused by name, never half translated."""
        for translate in (to_hf, from_hf):
            with pytest.raises(BadInputError, match="no parameter of the decoder"):
                translate(name)


class TestShapes:
    @pytest.mark.parametrize("name", NAMED)
    def test_count_what_the_model_counts(self, name: str) -> None:
        """All shapes together have exactly the model's parameters."""
        shape = shape_of(name)
        assert sum(map(math.prod, parameter_shapes(shape).values())) == total_parameters(shape)

    def test_are_those_of_the_decoder(self) -> None:
        """The decoder's own parameters have these names and shapes."""
        shape = shape_of("tiny")
        decoder = StageModel(shape, tuple(shape.units), sequence_length=8)
        found = {name: tuple(tensor.shape) for name, tensor in decoder.named_parameters()}
        assert found == parameter_shapes(shape)
