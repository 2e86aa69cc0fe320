"""What TP can't cut, and how vocabularies are padded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.model.config import read_config
from argosy.model.cutting import padded_vocabulary, uncut
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape


def shape_of(name: str) -> ModelShape:
    """Read a named model."""
    return read_config(*config_text(name))


class TestUncut:
    @pytest.mark.parametrize(
        ("name", "tp", "sizes"),
        [
            ("llama-3-8b", 8, {}),
            ("llama-3-8b", 16, {"num_key_value_heads": 8}),
            ("llama-3-8b", 3, {"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336}),
            ("gpt2", 2, {"vocab_size": 50257}),
            ("qwen3-30b-a3b", 8, {"num_key_value_heads": 4}),
            ("deepseek-v3", 128, {}),
        ],
    )
    def test_names_every_size(self, name: str, tp: int, sizes: dict[str, int]) -> None:
        """Heads, heads of keys unless they come from a latent, widths and the vocabulary are each named."""
        assert uncut(shape_of(name), tp) == sizes

    def test_experts(self) -> None:
        """The width of an expert must divide; that of a dense MLP is no matter where every layer has experts."""
        shape = shape_of("qwen3-30b-a3b")
        assert shape.experts is not None
        assert uncut(shape, 512)["moe_intermediate_size"] == shape.experts.intermediate_size
        assert "intermediate_size" not in uncut(shape, 7)
        assert "intermediate_size" in uncut(shape_of("deepseek-v3"), 7)

    def test_copied_keys(self) -> None:
        """Where ranks may hold copies a multiple of the heads of keys will do, anything else will not."""
        shape = shape_of("qwen3-30b-a3b")
        assert uncut(shape, 8, copies_keys=True) == {}
        assert "num_key_value_heads" in uncut(shape, 6, copies_keys=True)

    @given(st.sampled_from(named_configs()), st.integers(1, 64))
    def test_what_divides_one_after_another(self, name: str, tp: int) -> None:
        """A degree of which nothing stays uncut has divisors of which nothing does either."""
        shape = shape_of(name)
        if not uncut(shape, tp):
            assert not any(uncut(shape, low) for low in range(1, tp + 1) if tp % low == 0)


class TestPadded:
    @given(st.integers(1, 300_000), st.sampled_from([1, 2, 4, 6, 8]))
    def test_least_multiple(self, rows: int, tp: int) -> None:
        """The rows are the fewest that hold the vocabulary and divide into parts of 128."""
        padded = padded_vocabulary(rows, 128, tp)
        assert padded % (128 * tp) == 0
        assert rows <= padded < rows + 128 * tp
