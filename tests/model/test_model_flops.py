"""FLOPs against published formulas and direct sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.counts import active_parameters, unit_parameters
from argosy.model.flops import (
    attention_flops_per_token,
    backward_flops_per_token,
    forward_flops_per_token,
    model_flops_utilization,
    tokens_attended,
    train_flops_per_token,
    weight_flops_per_token,
)
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape


def shape_of(name: str) -> ModelShape:
    """Read a named configuration."""
    return read_config(*config_text(name))


class TestTokensAttended:
    @given(st.integers(1, 300), st.one_of(st.none(), st.integers(1, 400)))
    def test_equals_the_sum_over_positions(self, length: int, window: int | None) -> None:
        """The average is that of min(position, window) over positions from 1."""
        direct = sum(min(position, window or position) for position in range(1, length + 1)) / length
        assert tokens_attended(length, window) == pytest.approx(direct)

    def test_full_counts_the_square(self) -> None:
        """The full way counts all tokens, or the window."""
        assert tokens_attended(100, causal="full") == 100
        assert tokens_attended(100, window=7, causal="full") == 7

    def test_unknown_way(self) -> None:
        """A way that is neither half nor full is refused."""
        with pytest.raises(BadInputError, match="causal: got 'most'; expected half or full"):
            tokens_attended(8, causal="most")

    def test_no_tokens(self) -> None:
        """A sequence has at least one token."""
        with pytest.raises(BadInputError, match="sequence_length: got 0"):
            tokens_attended(0)


class TestFormulas:
    @pytest.mark.parametrize("length", [1024, 2048])
    def test_megatron(self, length: int) -> None:
        """GPT-3 with full recompute: 96 l h^2 (1 + s/6h + V/16lh) a token (arXiv 2104.04473, section 3.5.2)."""
        layers, hidden, vocabulary = 96, 12288, 50257
        terms = 1 + length / (6 * hidden) + vocabulary / (16 * layers * hidden)
        ours = train_flops_per_token(shape_of("gpt3-175b"), length, "full", causal="full")
        assert ours == pytest.approx(96 * layers * hidden**2 * terms, rel=1e-12)

    def test_palm(self) -> None:
        """Llama-2-7B without its input table and norms: 6 N + 12 L H Q T (arXiv 2204.02311, appendix B)."""
        shape, length = shape_of("llama-2-7b"), 4096
        multiplied = active_parameters(shape) - unit_parameters(shape, -1) - (2 * 32 + 1) * 4096
        expected = 6 * multiplied + 12 * 32 * 32 * 128 * length
        assert train_flops_per_token(shape, length, causal="full") == expected

    def test_tied_head_still_multiplies(self) -> None:
        """A tied head has no parameters of its own and all of its FLOPs; the lookup has none."""
        shape = shape_of("qwen2.5-0.5b")
        assert weight_flops_per_token(shape, shape.num_layers) == 2 * 151936 * 896
        assert weight_flops_per_token(shape, -1) == 0

    def test_experts_count_those_visited(self) -> None:
        """Of Mixtral's experts a token pays for two."""
        mlp = 2 * (3 * 4096 * 14336 * 2 + 8 * 4096)
        attention = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
        assert weight_flops_per_token(shape_of("mixtral-8x7b"), 0) == mlp + attention

    def test_latent_attention_has_its_own_widths(self) -> None:
        """DeepSeek-V3's scores are 192 wide, its values 128."""
        assert attention_flops_per_token(shape_of("deepseek-v3"), 0, 3) == 2 * 2 * 128 * (192 + 128)

    def test_windows_bound_local_layers(self) -> None:
        """GPT-Neo's local layers attend to 256 tokens at most."""
        shape = shape_of("gpt-neo-2.7b")
        assert attention_flops_per_token(shape, 1, 2048) < attention_flops_per_token(shape, 0, 2048) / 4


class TestBackward:
    @given(st.sampled_from(named_configs()), st.integers(1, 4096))
    def test_twice_the_forward_and_what_is_repeated(self, name: str, length: int) -> None:
        """Backward is two forwards; selective repeats attention, full the whole layer."""
        shape = shape_of(name)
        forward, attention = forward_flops_per_token(shape, 0, length), attention_flops_per_token(shape, 0, length)
        assert backward_flops_per_token(shape, 0, length) == 2 * forward
        assert backward_flops_per_token(shape, 0, length, "selective") == 2 * forward + attention
        assert backward_flops_per_token(shape, 0, length, "full") == 3 * forward

    def test_head_is_never_recomputed(self) -> None:
        """Recompute concerns decoder layers alone."""
        shape = shape_of("tiny")
        assert backward_flops_per_token(shape, 4, 8, "full") == backward_flops_per_token(shape, 4, 8)

    def test_unknown_recompute(self) -> None:
        """A word that is no way of recomputing is refused."""
        with pytest.raises(BadInputError, match="recompute: got 'some'; expected none, selective, full"):
            backward_flops_per_token(shape_of("tiny"), 0, 8, "some")


class TestUtilization:
    def test_share_of_the_peak(self) -> None:
        """A chip that does nothing but model FLOPs at its peak has an MFU of 1."""
        shape = shape_of("llama-3-8b")
        rate = 989e12 / train_flops_per_token(shape, 8192)
        assert model_flops_utilization(shape, 8192, rate, peak_tflops=989) == pytest.approx(1.0)
