"""A unit of a model in words that say all that its cost follows from: two units with the same words cost the same.

Measured profiles are kept under these words, so that a model may use what was measured on another with like layers.
"""

from argosy.model.shape import ModelShape


def describe_unit(shape: ModelShape, unit: int) -> str:
    """Describe a unit: -1 the embedding, num_layers the final norm and head, else a decoder layer.

    >>> from argosy.model.config import read_config
    >>> from argosy.model.named import config_text
    >>> describe_unit(read_config(*config_text("llama-3-8b")), 0)
    'layer 4096, heads 32+8 x 128, mlp 14336 swiglu, rms'
    """
    hidden = shape.hidden_size
    if unit < 0 or unit >= shape.num_layers:
        name = "embedding" if unit < 0 else "head"
        extras = [f"tables {shape.embedding_size}"] if shape.embedding_size else []
        extras += [f"positions {shape.learned_positions}"] if unit < 0 and shape.learned_positions else []
        extras += ["bias"] if unit >= 0 and shape.head_bias else []
        if unit >= 0 and shape.mtp_modules:
            extras += [f"and {shape.mtp_modules} x ({describe_unit(shape, shape.num_layers - 1)})"]
        return ", ".join([f"{name} {shape.vocab_size} x {hidden}", *extras])
    parts = [f"layer {hidden}", _attention(shape), _mlp(shape, unit), shape.norm]
    window = shape.window(unit)
    parts += [f"window {window}"] if window else []
    parts += ["qk norm"] if shape.qk_norm else []
    biases = [n for n, has in (("qkv", shape.qkv_bias), ("o", shape.o_bias), ("mlp", shape.mlp_bias)) if has]
    return ", ".join([*parts, *([f"biases {' '.join(biases)}"] if biases else [])])


def _attention(shape: ModelShape) -> str:
    latent = shape.latent
    if latent:
        sizes = (latent.query_rank or 0, latent.key_value_rank, latent.plain_dim, latent.rope_dim, latent.value_dim)
        return f"heads {shape.num_heads}, latent {' '.join(map(str, sizes))}"
    return f"heads {shape.num_heads}+{shape.num_kv_heads} x {shape.head_dim}"


def _mlp(shape: ModelShape, unit: int) -> str:
    experts = shape.experts
    if experts and shape.has_experts(unit):
        shared = f" and {experts.shared_size}" if experts.shared_size else ""
        return (
            f"experts {experts.per_token} of {experts.count} x {experts.intermediate_size}{shared} {shape.activation}"
        )
    return f"mlp {shape.intermediate_size} {shape.activation}"
