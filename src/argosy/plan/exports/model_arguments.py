"""A model's shape in the arguments of Megatron-LM, or what of it they can't say.

Names and meanings are those of Megatron Core 0.19.0 (`megatron/training/arguments.py`); FlagScale's are the same. It
knows no plan.
"""

from collections.abc import Sequence

from argosy.contracts.errors import BadInputError
from argosy.model.shape import Experts, LatentAttention, ModelShape
from argosy.plan.costs.program import VOCABULARY_MULTIPLE

Arguments = dict[str, str | int | float | bool]
"""Name without dashes in front -> value; true stands for a flag without one. Kept in the order they are written in."""

# What Megatron-LM fixes in code of the positions of Llama 3.1 and of YaRN with latent attention.
LLAMA3_FIXED = {"low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
YARN_FIXED = {"beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}


def model_arguments(shape: ModelShape, sequence_length: int, tool: str) -> Arguments:
    """Say a model in arguments; raises BadInputError with what of it has none. tool: the framework's name in errors."""
    for refused, what in _refusals(shape, sequence_length):
        if refused:
            raise BadInputError(f"{tool} has no arguments for {shape.name}: {what}")
    made: Arguments = {
        "num-layers": shape.num_layers,
        "hidden-size": shape.hidden_size,
        "ffn-hidden-size": shape.intermediate_size,
        "num-attention-heads": shape.num_heads,
    }
    if shape.latent:
        made |= _latent_arguments(shape.latent)
    elif shape.num_kv_heads != shape.num_heads:
        made |= {"group-query-attention": True, "num-query-groups": shape.num_kv_heads}
    if not shape.latent and shape.head_dim * shape.num_heads != shape.hidden_size:
        made["kv-channels"] = shape.head_dim
    made |= {
        "seq-length": sequence_length,
        "max-position-embeddings": shape.learned_positions or max(sequence_length, shape.max_positions),
        "vocab-size": shape.vocab_size,
        "make-vocab-size-divisible-by": VOCABULARY_MULTIPLE,
        **_position_arguments(shape, tool),
        **_window_arguments(shape),
        "normalization": "RMSNorm" if shape.norm == "rms" else "LayerNorm",
        "norm-epsilon": shape.norm_epsilon,
    }
    flags = {
        "swiglu": shape.activation == "swiglu",
        "disable-bias-linear": not shape.mlp_bias,
        "add-qkv-bias": shape.qkv_bias and not shape.mlp_bias,
        # With latent attention the same flag stands for the norms of the latents.
        "qk-layernorm": shape.qk_norm or shape.latent is not None,
        "untie-embeddings-and-output-weights": not shape.tied_embeddings,
    }
    made |= {name: True for name, wanted in flags.items() if wanted}
    if shape.experts:
        made |= _expert_arguments(shape.experts)
    if shape.mtp_modules:
        made["mtp-num-layers"] = shape.mtp_modules
    return made | {"attention-dropout": 0.0, "hidden-dropout": 0.0}


def runs(values: Sequence[bool]) -> str:
    """Write a list of yes and no as Megatron-LM reads it.

    >>> runs([False, False, True, True, True])
    '([0]*2+[1]*3)'
    """
    ends = [index for index in range(1, len(values) + 1) if index == len(values) or values[index] != values[index - 1]]
    starts = [0, *ends[:-1]]
    return f"({'+'.join(f'[{int(values[start])}]*{end - start}' for start, end in zip(starts, ends, strict=True))})"


def _refusals(shape: ModelShape, sequence_length: int) -> tuple[tuple[bool, str], ...]:
    widths = {window for window in shape.windows if window is not None}
    biases = (shape.qkv_bias, shape.o_bias, shape.mlp_bias)
    return (
        (shape.activation not in ("swiglu", "gelu"), f"the activation {shape.activation} (it has gelu and swiglu)"),
        (shape.family == "gpt_neox", "attention and MLP of a layer in parallel"),
        (shape.post_norm, "norms that follow their blocks"),
        (not shape.final_norm, "no norm before the head"),
        (shape.embedding_size is not None, "a token table narrower than the hidden size"),
        (shape.head_bias, "a bias on the output head"),
        (
            biases not in ((False,) * 3, (True,) * 3, (True, False, False)),
            f"biases on {_named(biases)} alone (it has all, none, or those of query, key and value)",
        ),
        (len(widths) > 1, f"windows of {len(widths)} widths (it has one)"),
        (bool(widths) and shape.latent is not None, "windows with latent attention"),
        (
            0 < (shape.learned_positions or 0) < sequence_length,
            f"sequences of {sequence_length:,} tokens, beyond its table of {shape.learned_positions or 0:,} positions",
        ),
        (
            shape.mtp_modules > 0 and shape.rope_theta is None,
            "multi-token prediction without rotary positions",
        ),
    )


def _named(biases: tuple[bool, ...]) -> str:
    names = ("query, key and value", "the attention's output", "the MLP")
    return " and ".join(name for name, given in zip(names, biases, strict=True) if given)


def _latent_arguments(latent: LatentAttention) -> Arguments:
    made: Arguments = {"multi-latent-attention": True}
    if latent.query_rank is not None:
        made["q-lora-rank"] = latent.query_rank
    return made | {
        "kv-lora-rank": latent.key_value_rank,
        "qk-head-dim": latent.plain_dim,
        "qk-pos-emb-head-dim": latent.rope_dim,
        "v-head-dim": latent.value_dim,
    }


def _position_arguments(shape: ModelShape, tool: str) -> Arguments:
    if shape.rope_theta is None:
        return {"position-embedding-type": "learned_absolute" if shape.learned_positions else "none"}
    made: Arguments = {"position-embedding-type": "rope", "rotary-base": round(shape.rope_theta)}
    if made["rotary-base"] != shape.rope_theta:
        raise BadInputError(f"{tool} takes a whole number as base of rotary positions, not {shape.rope_theta}")
    if shape.rope_share != 1.0:
        made["rotary-percent"] = shape.rope_share
    return made | _rescaling(shape, tool)


def _rescaling(shape: ModelShape, tool: str) -> Arguments:
    """Say how rotary positions are rescaled; only the forms that Megatron-LM has are taken, with what it fixes."""
    given = shape.rope_scaling or {}
    kind = given.get("rope_type", given.get("type", "default"))
    factor = given.get("factor", 1.0)
    # Latent attention takes YaRN unless told otherwise.
    plain: Arguments = {"rope-type": "rope"} if shape.latent else {}
    if kind == "default":
        return plain
    if kind == "llama3" and not shape.latent and _fixed(given, LLAMA3_FIXED):
        return {"use-rope-scaling": True, "rope-scaling-factor": float(factor)}
    if kind == "linear" and not shape.latent and float(factor).is_integer():
        return {"rotary-seq-len-interpolation-factor": int(factor)}
    if kind == "yarn" and shape.latent and _fixed(given, YARN_FIXED):
        scales: Arguments = {name.replace("_", "-"): float(given[name]) for name in _MSCALES if name in given}
        return {"rope-type": "yarn", "rotary-scaling-factor": float(factor), **scales}
    raise BadInputError(
        f"{tool} has no arguments for {shape.name}: rotary positions rescaled by {given}; it has llama3 with "
        f"{LLAMA3_FIXED}, linear by a whole factor and, with latent attention, yarn with {YARN_FIXED}"
    )


_MSCALES = ("mscale", "mscale_all_dim")


def _fixed(given: dict[str, object], fixed: dict[str, int]) -> bool:
    return all(given.get(name, value) == value for name, value in fixed.items())


def _window_arguments(shape: ModelShape) -> Arguments:
    width = next((window for window in shape.windows if window is not None), None)
    if width is None:
        return {}
    # Megatron-LM counts the tokens before the one that attends.
    made: Arguments = {"window-size": f"({width - 1},0)"}
    inside = [window is not None for window in shape.windows]
    return made if all(inside) else made | {"window-attn-skip-freq": runs(inside)}


def _expert_arguments(experts: Experts) -> Arguments:
    made: Arguments = {
        "num-experts": experts.count,
        "moe-router-topk": experts.per_token,
        "moe-ffn-hidden-size": experts.intermediate_size,
    }
    if experts.shared_size:
        made["moe-shared-expert-intermediate-size"] = experts.shared_size
    if not all(experts.layers):
        made["moe-layer-freq"] = runs(experts.layers)
    if experts.router_bias:
        made |= {"moe-router-score-function": "sigmoid", "moe-router-enable-expert-bias": True}
    return made | {"moe-grouped-gemm": True, "moe-token-dispatcher-type": "alltoall"}
