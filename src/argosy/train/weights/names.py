"""Names and shapes of the decoder's parameters, and what Hugging Face calls them.

Llama, Mistral, Qwen2 and Qwen3 share one table. Both sides pair the halves of a head for rotary positions, so query and
key weights need no permutation. Opens nothing.
"""

from argosy.contracts.errors import BadInputError
from argosy.model.shape import ModelShape

_WHOLE = {
    "embedding.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_IN_LAYER = {
    "attention_norm": "input_layernorm",
    "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj",
    "attention.v": "self_attn.v_proj",
    "attention.o": "self_attn.o_proj",
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    "mlp_norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}
_TO_HF = _WHOLE | {f"{ours}.{kind}": f"{hf}.{kind}" for ours, hf in _IN_LAYER.items() for kind in ("weight", "bias")}
_FROM_HF = {hf: ours for ours, hf in _TO_HF.items()}
HF_HEAD = _WHOLE["head.weight"]


def to_hf(name: str) -> str:
    """Translate our name of a parameter: `layers.3.attention.q.weight` -> `model.layers.3.self_attn.q_proj.weight`.

    Raises BadInputError for a name that the decoder doesn't have.
    """
    prefix, layer, rest = _split(name, "layers.")
    if rest not in _TO_HF:
        raise BadInputError(f'no parameter of the decoder is named "{name}"')
    return f"model.{prefix}{layer}.{_TO_HF[rest]}" if prefix else _TO_HF[rest]


def from_hf(name: str) -> str:
    """Translate Hugging Face's name of a parameter to ours; the inverse of `to_hf`."""
    prefix, layer, rest = _split(name, "model.layers.")
    if rest not in _FROM_HF:
        raise BadInputError(f'no parameter of the decoder is named "{name}" in Hugging Face\'s layout')
    return f"layers.{layer}.{_FROM_HF[rest]}" if prefix else _FROM_HF[rest]


def _split(name: str, prefix: str) -> tuple[str, str, str]:
    """Cut `layers.3.mlp.up.weight` into `layers.`, `3`, `mlp.up.weight`; what is in no layer stays whole."""
    if not name.startswith(prefix):
        return "", "", name if name in (*_WHOLE, *_WHOLE.values()) else ""
    layer, _, rest = name.removeprefix(prefix).partition(".")
    inside = layer.isascii() and layer.isdecimal() and rest not in (*_WHOLE, *_WHOLE.values())
    return prefix, layer, rest if inside else ""


def parameter_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """List every parameter of a decoder with its shape, in the order in which data passes them."""
    hidden, vocab = shape.hidden_size, shape.vocab_size
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (vocab, hidden)}
    for layer in range(shape.num_layers):
        shapes |= {f"layers.{layer}.{name}": size for name, size in _layer_shapes(shape).items()}
    shapes["norm.weight"] = (hidden,)
    if not shape.tied_embeddings:
        shapes["head.weight"] = (vocab, hidden)
    return shapes


def _layer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    hidden, width = shape.hidden_size, shape.intermediate_size
    queries, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {"attention_norm.weight": (hidden,)}
    for name, out in (("q", queries), ("k", keys), ("v", keys)):
        sizes[f"attention.{name}.weight"] = (out, hidden)
        if shape.qkv_bias:
            sizes[f"attention.{name}.bias"] = (out,)
    sizes["attention.o.weight"] = (hidden, queries)
    if shape.qk_norm:
        sizes |= {f"attention.{name}_norm.weight": (shape.head_dim,) for name in ("q", "k")}
    sizes["mlp_norm.weight"] = (hidden,)
    return sizes | {
        "mlp.gate.weight": (width, hidden),
        "mlp.up.weight": (width, hidden),
        "mlp.down.weight": (hidden, width),
    }
