"""What the fields of each family's configuration mean, with the defaults that transformers' configuration classes give.

Sizes have no default here although transformers has some: a missing size is a mistake. It knows field names, not files
or JSON.
"""

from collections.abc import Callable
from typing import Any

from argosy.model.fields import LAYERS_MAXIMUM, Fields
from argosy.model.shape import Experts, LatentAttention, ModelShape

GELU_NAMES = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh")


def _core(fields: Fields, name: str, family: str) -> dict[str, Any]:
    """Read the sizes under the names that llama gave them and most families kept."""
    heads = fields.integer("num_attention_heads", example=32)
    return {
        "name": name,
        "family": family,
        "num_layers": fields.integer("num_hidden_layers", example=32, high=LAYERS_MAXIMUM),
        "hidden_size": fields.integer("hidden_size", example=4096),
        "num_heads": heads,
        "vocab_size": fields.integer("vocab_size", example=32000),
    }


def _head_dim(fields: Fields, hidden_size: int, heads: int, heads_key: str, default: int | None = None) -> int:
    given = fields.integer("head_dim", default, example=128)
    if given is None and hidden_size % heads:
        raise fields.error(
            heads_key, f"got {heads}; expected a divisor of the hidden size {hidden_size}, or a head_dim beside it"
        )
    return given or hidden_size // heads


def _missing_or_null(fields: Fields, key: str, default: int | None, example: int) -> int | None:
    """Read a whole number where null says that there is none and only a missing key means the family's default."""
    value: int | None = fields.integer(key, None, example=example) if key in fields.values else default
    return value


def _rope(
    fields: Fields,
    base: float = 10000.0,
    share: float = 1.0,
    base_key: str = "rope_theta",
    share_key: str = "rotary_pct",
) -> dict[str, Any]:
    """Read rotary positions in the old spelling (rope_theta, rope_scaling) and the new (rope_parameters holds both).

    base, share: the family's defaults.
    """
    table = fields.table("rope_parameters") or fields.table("rope_scaling")
    inside = table.values if table else {}
    theta = table if table and "rope_theta" in inside else None
    part = table if table and "partial_rotary_factor" in inside else None
    kind = inside.get("rope_type", inside.get("type", "default"))
    if not isinstance(kind, str):
        raise (table or fields).error("rope_type", f"got {kind!r}; expected a word such as default or llama3")
    rescaled = {key: value for key, value in inside.items() if key not in ("rope_theta", "partial_rotary_factor")}
    return {
        "rope_theta": (theta or fields).number("rope_theta" if theta else base_key, base, example=10000),
        "rope_share": (part or fields).number("partial_rotary_factor" if part else share_key, share, example=1),
        "rope_scaling": rescaled if kind != "default" else None,
    }


def _windows(fields: Fields, num_layers: int, window: int | None, first: int = 0) -> tuple[int | None, ...]:
    """Give the window of each layer: as layer_types says, else every layer from `first` on."""
    if window is None:
        return ()
    kinds = fields.sequence("layer_types") or ["full_attention"] * min(first, num_layers) + ["sliding_attention"] * max(
        num_layers - first, 0
    )
    allowed = ("full_attention", "sliding_attention")
    if len(kinds) != num_layers or any(kind not in allowed for kind in kinds):
        raise fields.error("layer_types", f"expected one of {' or '.join(allowed)} for each of {num_layers} layers")
    windows = tuple(window if kind == "sliding_attention" else None for kind in kinds)
    return windows if any(windows) else ()


def _decoder(
    fields: Fields,
    name: str,
    family: str,
    *,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    positions: int = 32768,
    epsilon: float = 1e-6,
    base: float = 10000.0,
) -> dict[str, Any]:
    """Read what llama, mistral, qwen and mixtral share; the keywords are the family's defaults."""
    core = _core(fields, name, family)
    fields.choice("hidden_act", "silu", ("silu",))
    given = _missing_or_null(fields, "num_key_value_heads", kv_heads, 8)
    core["num_kv_heads"] = given or core["num_heads"]
    core["head_dim"] = _head_dim(fields, core["hidden_size"], core["num_heads"], "num_attention_heads", head_dim)
    return core | {
        "max_positions": fields.integer("max_position_embeddings", positions, example=8192),
        "tied_embeddings": fields.flag("tie_word_embeddings", False),
        "norm_epsilon": fields.number("rms_norm_eps", epsilon, example=1e-5),
        **_rope(fields, base),
    }


def _llama(fields: Fields, name: str) -> ModelShape:
    bias = fields.flag("attention_bias", False)
    return ModelShape(
        **_decoder(fields, name, "llama", positions=2048),
        intermediate_size=fields.integer("intermediate_size", example=11008),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=fields.flag("mlp_bias", False),
    )


def _mistral(fields: Fields, name: str) -> ModelShape:
    core = _decoder(fields, name, "mistral", kv_heads=8, positions=131072)
    return ModelShape(
        **core,
        intermediate_size=fields.integer("intermediate_size", example=14336),
        windows=_windows(fields, core["num_layers"], _missing_or_null(fields, "sliding_window", 4096, 4096)),
    )


def _qwen_windows(fields: Fields, num_layers: int) -> tuple[int | None, ...]:
    if not fields.flag("use_sliding_window", False):
        return ()
    first = fields.integer("max_window_layers", 28, low=0, example=28)
    return _windows(fields, num_layers, _missing_or_null(fields, "sliding_window", 4096, 4096), first)


def _qwen2(fields: Fields, name: str) -> ModelShape:
    core = _decoder(fields, name, "qwen2", kv_heads=32)
    return ModelShape(
        **core,
        intermediate_size=fields.integer("intermediate_size", example=18944),
        qkv_bias=True,
        windows=_qwen_windows(fields, core["num_layers"]),
    )


def _qwen3(fields: Fields, name: str) -> ModelShape:
    core = _decoder(fields, name, "qwen3", kv_heads=32, head_dim=128)
    bias = fields.flag("attention_bias", False)
    return ModelShape(
        **core,
        intermediate_size=fields.integer("intermediate_size", example=12288),
        qk_norm=True,
        qkv_bias=bias,
        o_bias=bias,
        windows=_qwen_windows(fields, core["num_layers"]),
    )


def _qwen3_moe(fields: Fields, name: str) -> ModelShape:
    core = _decoder(fields, name, "qwen3_moe", kv_heads=4)
    bias = fields.flag("attention_bias", False)
    every = fields.integer("decoder_sparse_step", 1, example=1)
    dense = fields.sequence("mlp_only_layers") or []
    layers = tuple(layer not in dense and (layer + 1) % every == 0 for layer in range(core["num_layers"]))
    return ModelShape(
        **core,
        intermediate_size=fields.integer("intermediate_size", example=6144),
        qk_norm=True,
        qkv_bias=bias,
        o_bias=bias,
        windows=_qwen_windows(fields, core["num_layers"]),
        experts=Experts(
            count=fields.integer("num_experts", example=128),
            per_token=fields.integer("num_experts_per_tok", example=8),
            intermediate_size=fields.integer("moe_intermediate_size", example=768),
            layers=layers,
        ),
    )


def _mixtral(fields: Fields, name: str) -> ModelShape:
    core = _decoder(fields, name, "mixtral", kv_heads=8, positions=131072, epsilon=1e-5, base=1e6)
    width = fields.integer("intermediate_size", example=14336)
    return ModelShape(
        **core,
        intermediate_size=width,
        windows=_windows(fields, core["num_layers"], _missing_or_null(fields, "sliding_window", None, 4096)),
        experts=Experts(
            count=fields.integer("num_local_experts", example=8),
            per_token=fields.integer("num_experts_per_tok", example=2),
            intermediate_size=width,
            layers=(True,) * core["num_layers"],
        ),
    )


def _deepseek_v3(fields: Fields, name: str) -> ModelShape:
    core = _core(fields, name, "deepseek_v3")
    fields.choice("hidden_act", "silu", ("silu",))
    plain, rope = fields.integer("qk_nope_head_dim", example=128), fields.integer("qk_rope_head_dim", example=64)
    width = fields.integer("moe_intermediate_size", example=2048)
    first, every = fields.integer("first_k_dense_replace", low=0, example=3), fields.integer("moe_layer_freq", 1)
    bias = fields.flag("attention_bias", False)
    return ModelShape(
        **core,
        num_kv_heads=core["num_heads"],
        head_dim=plain + rope,
        intermediate_size=fields.integer("intermediate_size", example=18432),
        max_positions=fields.integer("max_position_embeddings", 4096, example=163840),
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        norm_epsilon=fields.number("rms_norm_eps", 1e-6, example=1e-6),
        qkv_bias=bias,
        o_bias=bias,
        **_rope(fields),
        mtp_modules=fields.integer("num_nextn_predict_layers", 0, low=0, high=LAYERS_MAXIMUM, example=1),
        latent=LatentAttention(
            query_rank=_missing_or_null(fields, "q_lora_rank", 1536, 1536),
            key_value_rank=fields.integer("kv_lora_rank", example=512),
            plain_dim=plain,
            rope_dim=rope,
            value_dim=fields.integer("v_head_dim", example=128),
        ),
        experts=Experts(
            count=fields.integer("n_routed_experts", example=256),
            per_token=fields.integer("num_experts_per_tok", example=8),
            intermediate_size=width,
            layers=tuple(layer >= first and layer % every == 0 for layer in range(core["num_layers"])),
            shared_size=width * fields.integer("n_shared_experts", low=0, example=1),
            router_bias=fields.choice("topk_method", "noaux_tc", ("noaux_tc", "greedy", "group_limited_greedy"))
            == "noaux_tc",
        ),
    )


def _gpt2(fields: Fields, name: str) -> ModelShape:
    hidden, heads = fields.integer("n_embd", example=768), fields.integer("n_head", example=12)
    fields.choice("activation_function", "gelu_new", GELU_NAMES)
    positions = fields.integer("n_positions", 1024, example=1024)
    return ModelShape(
        name=name,
        family="gpt2",
        num_layers=fields.integer("n_layer", example=12, high=LAYERS_MAXIMUM),
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=_head_dim(fields, hidden, heads, "n_head"),
        intermediate_size=fields.integer("n_inner", None, example=3072) or 4 * hidden,
        vocab_size=fields.integer("vocab_size", example=50257),
        max_positions=positions,
        learned_positions=positions,
        tied_embeddings=fields.flag("tie_word_embeddings", True),
        activation="gelu",
        norm="layer",
        norm_epsilon=fields.number("layer_norm_epsilon", 1e-5, example=1e-5),
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
    )


def _gpt_neox(fields: Fields, name: str) -> ModelShape:
    core = _core(fields, name, "gpt_neox")
    fields.choice("hidden_act", "gelu", GELU_NAMES)
    bias = fields.flag("attention_bias", True)
    return ModelShape(
        **core,
        num_kv_heads=core["num_heads"],
        head_dim=_head_dim(fields, core["hidden_size"], core["num_heads"], "num_attention_heads"),
        intermediate_size=fields.integer("intermediate_size", example=24576),
        max_positions=fields.integer("max_position_embeddings", 2048, example=2048),
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        activation="gelu",
        norm="layer",
        norm_epsilon=fields.number("layer_norm_eps", 1e-5, example=1e-5),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=True,
        **_rope(fields, share=0.25, base_key="rotary_emb_base"),
    )


def _opt(fields: Fields, name: str) -> ModelShape:
    core = _core(fields, name, "opt")
    fields.choice("activation_function", "relu", ("relu",))
    positions = fields.integer("max_position_embeddings", 2048, example=2048)
    before, bias = fields.flag("do_layer_norm_before", True), fields.flag("enable_bias", True)
    width = fields.integer("word_embed_proj_dim", core["hidden_size"], example=512)
    return ModelShape(
        **core,
        num_kv_heads=core["num_heads"],
        head_dim=_head_dim(fields, core["hidden_size"], core["num_heads"], "num_attention_heads"),
        intermediate_size=fields.integer("ffn_dim", example=4096),
        max_positions=positions,
        # transformers' OPT keeps two rows of the table for padding.
        learned_positions=positions + 2,
        embedding_size=width if width != core["hidden_size"] else None,
        tied_embeddings=fields.flag("tie_word_embeddings", True),
        activation="relu",
        norm="layer",
        post_norm=not before,
        final_norm=before and not fields.flag("_remove_final_layer_norm", False),
        qkv_bias=bias,
        o_bias=bias,
        mlp_bias=bias,
    )


def _gpt_neo(fields: Fields, name: str) -> ModelShape:
    hidden, heads = fields.integer("hidden_size", example=2560), fields.integer("num_heads", example=20)
    layers = fields.integer("num_layers", example=32, high=LAYERS_MAXIMUM)
    fields.choice("activation_function", "gelu_new", GELU_NAMES)
    positions = fields.integer("max_position_embeddings", 2048, example=2048)
    return ModelShape(
        name=name,
        family="gpt_neo",
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=_head_dim(fields, hidden, heads, "num_heads"),
        intermediate_size=fields.integer("intermediate_size", None, example=10240) or 4 * hidden,
        vocab_size=fields.integer("vocab_size", example=50257),
        max_positions=positions,
        learned_positions=positions,
        tied_embeddings=fields.flag("tie_word_embeddings", True),
        activation="gelu",
        norm="layer",
        norm_epsilon=fields.number("layer_norm_epsilon", 1e-5, example=1e-5),
        o_bias=True,
        mlp_bias=True,
        windows=_gpt_neo_windows(fields, layers, fields.integer("window_size", 256, example=256)),
    )


def _gpt_neo_windows(fields: Fields, num_layers: int, window: int) -> tuple[int | None, ...]:
    """Give the window of each layer, from attention_layers or from attention_types as [[kinds, times], ...]."""
    kinds = fields.sequence("attention_layers")
    if kinds is None:
        try:
            kinds = [
                kind for block, times in fields.sequence("attention_types") or [] for kind in _repeated(block, times)
            ]
        except (TypeError, ValueError):
            kinds = []
    if len(kinds) != num_layers or any(kind not in ("global", "local") for kind in kinds):
        expected = f'"global" or "local" for each of {num_layers} layers, as [[["global", "local"], {num_layers // 2}]]'
        raise fields.error(
            "attention_layers" if "attention_layers" in fields.values else "attention_types", f"expected {expected}"
        )
    return tuple(window if kind == "local" else None for kind in kinds)


def _repeated(block: list[str], times: int) -> list[str]:
    return list(block) * times if 0 < times <= LAYERS_MAXIMUM else []


FAMILIES: dict[str, tuple[str, Callable[[Fields, str], ModelShape]]] = {
    "llama": ("LlamaForCausalLM", _llama),
    "mistral": ("MistralForCausalLM", _mistral),
    "qwen2": ("Qwen2ForCausalLM", _qwen2),
    "qwen3": ("Qwen3ForCausalLM", _qwen3),
    "qwen3_moe": ("Qwen3MoeForCausalLM", _qwen3_moe),
    "mixtral": ("MixtralForCausalLM", _mixtral),
    "deepseek_v3": ("DeepseekV3ForCausalLM", _deepseek_v3),
    "gpt2": ("GPT2LMHeadModel", _gpt2),
    "gpt_neox": ("GPTNeoXForCausalLM", _gpt_neox),
    "opt": ("OPTForCausalLM", _opt),
    "gpt_neo": ("GPTNeoForCausalLM", _gpt_neo),
}
"""model_type -> (name in `architectures`, reader)."""
