"""Reading config.json: families, defaults, and every way in which it can be wrong."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.model.config import read_config
from argosy.model.counts import total_parameters
from argosy.model.families import FAMILIES
from argosy.model.named import config_text, named_configs
from argosy.model.shape import ModelShape


def llama(**changes: Any) -> str:
    """Write a small llama configuration; a change to `...` drops the field."""
    values: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": 256,
    }
    values |= changes
    return json.dumps({key: value for key, value in values.items() if value is not ...}, indent=2)


def read(name: str, **changes: Any) -> ModelShape:
    """Read a named configuration with changes; a change to `...` drops the field."""
    values = json.loads(config_text(name)[0]) | changes
    return read_config(json.dumps({k: v for k, v in values.items() if v is not ...}), "config.json")


def problem(text: str, source: str = "config.json") -> str:
    """Read a wrong configuration and give the error's text."""
    with pytest.raises(BadInputError) as caught:
        read_config(text, source)
    return str(caught.value)


class TestDefaults:
    def test_llama_falls_back_to_one_key_value_head_a_head(self) -> None:
        """A llama without num_key_value_heads has as many as heads, untied, with the base 10,000."""
        shape = read_config(llama(), "config.json")
        assert (shape.num_kv_heads, shape.head_dim, shape.tied_embeddings) == (4, 16, False)
        assert (shape.rope_theta, shape.max_positions, shape.norm_epsilon) == (10000.0, 2048, 1e-6)

    def test_head_dim_wins_over_the_quotient(self) -> None:
        """A given head_dim need not be hidden size over heads."""
        assert read_config(llama(head_dim=32), "config.json").head_dim == 32

    def test_null_means_the_default(self) -> None:
        """A field of null counts as missing where it has a default."""
        assert read_config(llama(head_dim=None, rope_theta=None), "config.json").head_dim == 16

    def test_whole_floats_are_integers(self) -> None:
        """A size written as 64.0 is 64."""
        assert read_config(llama(hidden_size=64.0), "config.json").hidden_size == 64

    def test_new_spelling_of_rotary_positions(self) -> None:
        """rope_parameters gives base and scaling in one object."""
        shape = read_config(llama(rope_parameters={"rope_type": "default", "rope_theta": 5e5}), "config.json")
        assert (shape.rope_theta, shape.rope_scaling) == (5e5, None)

    def test_scaling_is_kept_raw(self) -> None:
        """rope_scaling passes through as written."""
        scaling = json.loads(config_text("llama-3.1-8b")[0])["rope_scaling"]
        assert read("llama-3.1-8b").rope_scaling == scaling

    def test_architectures_name_the_family_where_model_type_is_missing(self) -> None:
        """A configuration without model_type is read by its architectures."""
        text = llama(model_type=..., architectures=["Qwen2ForCausalLM"], num_key_value_heads=2)
        assert read_config(text, "config.json").family == "qwen2"


class TestWindows:
    def test_mistral_slides_everywhere_unless_null(self) -> None:
        """A missing sliding_window is mistral's 4,096, null is none."""
        assert read("mistral-7b", sliding_window=...).windows == (4096,) * 32
        assert read("mistral-7b", sliding_window=None).windows == ()

    def test_qwen_slides_from_max_window_layers_on(self) -> None:
        """Qwen's first max_window_layers layers attend to all."""
        shape = read("qwen2.5-0.5b", use_sliding_window=True, sliding_window=7, max_window_layers=22)
        assert shape.windows == (None,) * 22 + (7, 7)
        assert shape.window(21) is None
        assert shape.window(22) == 7

    def test_layer_types_win(self) -> None:
        """layer_types says it for each layer."""
        kinds = ["sliding_attention"] + ["full_attention"] * 23
        shape = read("qwen2.5-0.5b", use_sliding_window=True, sliding_window=7, layer_types=kinds)
        assert shape.windows == (7,) + (None,) * 23

    def test_gpt_neo_alternates(self) -> None:
        """Every second layer of GPT-Neo is local; both spellings say so."""
        assert read("gpt-neo-2.7b").windows == (None, 256) * 16
        listed = read("gpt-neo-2.7b", attention_types=..., attention_layers=["local", "global"] * 16)
        assert listed.windows == (256, None) * 16

    def test_kinds_must_count_the_layers(self) -> None:
        """Too few kinds of layers are refused."""
        with pytest.raises(BadInputError, match=r'attention_types: expected "global" or "local" for each of 32 layers'):
            read("gpt-neo-2.7b", attention_types=[[["global", "local"], 15]])


class TestFamilies:
    def test_each_family_ships_a_configuration(self) -> None:
        """Every supported family is read by at least one named configuration."""
        assert {read(name).family for name in named_configs()} == set(FAMILIES)

    def test_deepseek_has_latents_and_experts(self) -> None:
        """DeepSeek-V3's first three layers are dense, the others have a shared expert."""
        shape = read("deepseek-v3")
        assert shape.latent is not None
        assert shape.experts is not None
        assert (shape.head_dim, shape.value_dim, shape.experts.shared_size) == (192, 128, 2048)
        assert [shape.has_experts(layer) for layer in (0, 2, 3, 60)] == [False, False, True, True]

    def test_opt_350m_projects_and_ends_without_a_norm(self) -> None:
        """OPT-350m embeds in 512 dims, norms after its blocks and has two spare positions."""
        shape = read("opt-350m")
        assert (shape.embedding_size, shape.post_norm, shape.final_norm) == (512, True, False)
        assert shape.learned_positions == 2050

    def test_qwen3_moe_leaves_layers_dense(self) -> None:
        """mlp_only_layers and decoder_sparse_step say which layers have experts."""
        shape = read("qwen3-30b-a3b", decoder_sparse_step=2, mlp_only_layers=[1])
        assert [shape.has_experts(layer) for layer in range(4)] == [False, False, False, True]


class TestNames:
    @pytest.mark.parametrize(
        ("source", "name"),
        [("llama-3-8b.json", "llama-3-8b"), ("runs/mine/config.json", "mine"), ("config.json", "model")],
    )
    def test_model_is_named_for_its_file(self, source: str, name: str) -> None:
        """A model is named for its file, or its folder when the file is config.json."""
        assert read_config(llama(), source).name == name


class TestErrors:
    def test_missing_field_names_file_field_and_example(self) -> None:
        """A missing size says where, which and what one looks like."""
        text = problem(llama(hidden_size=...), "runs/mine/config.json")
        assert text.startswith("runs/mine/config.json  hidden_size: missing; expected a whole number from 1")
        assert "for example 4096" in text

    def test_missing_field_finds_its_misspelling(self) -> None:
        """A near name in the file is offered."""
        assert "did you mean num_hidden_layer?" in problem(llama(num_hidden_layers=..., num_hidden_layer=4))

    @pytest.mark.parametrize("value", [0, -1, 1.5, "64", True, [], 10**12])
    def test_wrong_size_names_its_line_and_value(self, value: Any) -> None:
        """A size that is no positive whole number is refused with its line."""
        text = problem(llama(hidden_size=value))
        assert text.startswith(f"config.json:3  hidden_size: got {json.dumps(value)}; expected a whole number")

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"num_attention_heads": 5}, "num_attention_heads: got 5; expected a divisor of the hidden size 64"),
            ({"num_key_value_heads": 3}, "num_key_value_heads: got 3; expected a divisor of num_attention_heads 4"),
            ({"head_dim": 15}, "head_dim: got 15; rotary positions need an even number"),
            ({"rope_theta": 0}, "rope_theta: got 0; expected a positive number"),
            ({"rope_theta": float("nan")}, "rope_theta: got NaN; expected a positive number"),
            ({"tie_word_embeddings": "no"}, 'tie_word_embeddings: got "no"; expected true or false'),
            ({"hidden_act": "gelu"}, 'hidden_act: got "gelu"; expected silu'),
            ({"rope_scaling": [8]}, "rope_scaling: got [8]; expected an object"),
            ({"rope_scaling": {"type": 8}}, "rope_scaling.rope_type: got 8"),
            ({"is_encoder_decoder": True}, "is_encoder_decoder: got true; only decoder-only"),
        ],
    )
    def test_wrong_field_says_what_is_allowed(self, changes: dict[str, Any], expected: str) -> None:
        """Each wrong field is named with the value got and what is allowed."""
        assert expected in problem(llama(**changes))

    def test_too_few_experts(self) -> None:
        """A token can't visit more experts than there are, nor none."""
        with pytest.raises(BadInputError, match="num_experts_per_tok: got 2; expected at most the 1 experts"):
            read("mixtral-8x7b", num_local_experts=1)
        with pytest.raises(BadInputError, match="num_local_experts: got 0"):
            read("mixtral-8x7b", num_local_experts=0)

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"model_type": "lama"}, "model_type: 'lama' is not supported; nearest: llama. Supported: llama, mistral"),
            ({"model_type": ...}, "model_type: missing. Supported: llama"),
            ({"model_type": 3}, "model_type: 3 is not supported"),
            ({"model_type": ..., "architectures": ["LlamaForCausalML"]}, "nearest: LlamaForCausalLM"),
        ],
    )
    def test_unknown_family_offers_the_nearest(self, changes: dict[str, Any], expected: str) -> None:
        """An unknown family lists what is supported and the nearest of it."""
        assert expected in problem(llama(**changes))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "config.json: empty"),
            ("{\n  nope}", "config.json:2:3  not JSON"),
            ("[1]", "config.json: holds [1]; expected an object"),
            ('{"a": 1, "a": 2}', "config.json: a: given twice; keep one"),
            ("[" * 100_000, "config.json: "),
            ('{"a": ' + "9" * 5000 + "}", "config.json: "),
        ],
    )
    def test_text_that_is_no_object_of_json(self, text: str, expected: str) -> None:
        """Text that is not one JSON object is refused with its place."""
        assert problem(text).startswith(expected)

    @given(
        st.sampled_from(named_configs()),
        st.data(),
        st.one_of(
            st.none(), st.integers(-2, 300), st.text(max_size=5), st.booleans(), st.lists(st.integers(), max_size=2)
        ),
    )
    def test_any_field_may_hold_anything(self, name: str, data: st.DataObject, value: Any) -> None:
        """Whatever a field holds, the answer is a countable shape or an error for a person."""
        values = json.loads(config_text(name)[0])
        key = data.draw(st.sampled_from(sorted(values)))
        text = json.dumps(values | {key: value})
        try:
            shape = read_config(text, "config.json")
        except BadInputError:
            assert problem(text).startswith("config.json")
        else:
            assert total_parameters(shape) > 0
