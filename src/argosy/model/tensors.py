"""The inventory of a model: every weight of every unit, what a token does to it and how tensor parallelism cuts it.

Parameters, FLOPs and bytes all read this one list. It knows no precision, no chip and no framework's names.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from argosy.contracts.errors import BadInputError
from argosy.model.shape import Experts, LatentAttention, ModelShape

KINDS = ("embedding", "attention", "mlp", "router", "experts", "shared_expert", "norms", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One tensor, or `copies` alike where each expert has one.

    kind: one of KINDS. shape: out and in, or the length of a vector. active: copies that one token uses.
    multiplied: a token goes through it as a matrix product (not so for tables, norms and biases).
    parts: into how many equal pieces tensor parallelism can cut it; 1 means that every rank holds all of it.
    extra: of a module for multi-token prediction, which published counts leave out.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    copies: int = 1
    active: int = 1
    multiplied: bool = False
    parts: int = 1
    extra: bool = False

    @property
    def parameters(self) -> int:
        """Numbers in it, all copies."""
        return math.prod(self.shape) * self.copies

    @property
    def active_parameters(self) -> int:
        """Numbers that one token meets."""
        return math.prod(self.shape) * self.active


@lru_cache(maxsize=4096)
def unit_weights(shape: ModelShape, unit: int) -> tuple[Weight, ...]:
    """List all weights of a unit: -1 the embedding, num_layers the final norm and head, else a decoder layer.

    A tied head's matrix is the embedding's: it stands in unit -1 as a table, and in the head with `copies` 0, so that
    its product is seen and its parameters are not counted twice.
    """
    if unit == -1:
        return tuple(_embedding(shape))
    if unit == shape.num_layers:
        return tuple(_head(shape))
    if not 0 <= unit < shape.num_layers:
        raise BadInputError(
            f"{shape.name}: no unit {unit}; there are -1 (embedding), 0..{shape.num_layers - 1} (layers) and "
            f"{shape.num_layers} (head)"
        )
    return _layer(shape, shape.has_experts(unit))


@lru_cache(maxsize=1024)
def _layer(shape: ModelShape, experts: bool) -> tuple[Weight, ...]:
    attention = _latent(shape, shape.latent) if shape.latent else _attention(shape)
    mlp = _experts(shape, shape.experts) if shape.experts and experts else _mlp(shape, "mlp", shape.intermediate_size)
    norms = (*_norm(shape, "attention_norm"), *_norm(shape, "mlp_norm"))
    return (*attention, *mlp, *norms)


def _embedding(shape: ModelShape) -> Iterator[Weight]:
    width = shape.embedding_size or shape.hidden_size
    yield Weight(name="embedding", kind="embedding", shape=(shape.vocab_size, width), parts=shape.vocab_size)
    if shape.learned_positions:
        yield Weight(name="positions", kind="embedding", shape=(shape.learned_positions, shape.hidden_size))
    if shape.embedding_size:
        yield Weight(name="project_in", kind="embedding", shape=(shape.hidden_size, width), multiplied=True)


def _head(shape: ModelShape) -> Iterator[Weight]:
    if shape.final_norm:
        yield from _norm(shape, "norm")
    width = shape.embedding_size or shape.hidden_size
    if shape.embedding_size:
        yield Weight(name="project_out", kind="head", shape=(width, shape.hidden_size), multiplied=True)
    copies = 0 if shape.tied_embeddings else 1
    yield Weight(
        name="head",
        kind="head",
        shape=(shape.vocab_size, width),
        copies=copies,
        multiplied=True,
        parts=shape.vocab_size,
    )
    if shape.head_bias:
        yield Weight(name="head.bias", kind="head", shape=(shape.vocab_size,), parts=shape.vocab_size)
    for module in range(shape.mtp_modules):
        for weight in _mtp(shape, width):
            yield replace(weight, name=f"mtp.{module}.{weight.name}", extra=True)


def _mtp(shape: ModelShape, width: int) -> Iterator[Weight]:
    """List a module for multi-token prediction; its embedding and head are those of the model."""
    yield from _norm(shape, "hidden_norm")
    yield from _norm(shape, "embedding_norm")
    yield Weight(name="join", kind="mlp", shape=(shape.hidden_size, 2 * shape.hidden_size), multiplied=True)
    yield from _layer(shape, shape.has_experts(shape.num_layers - 1))
    yield from _norm(shape, "norm")
    yield Weight(
        name="head", kind="head", shape=(shape.vocab_size, width), copies=0, multiplied=True, parts=shape.vocab_size
    )


def _norm(shape: ModelShape, name: str, width: int | None = None) -> Iterator[Weight]:
    yield Weight(name=name, kind="norms", shape=(width or shape.hidden_size,))
    if shape.norm == "layer":
        yield Weight(name=f"{name}.bias", kind="norms", shape=(width or shape.hidden_size,))


def _out_split(name: str, kind: str, outputs: int, inputs: int, parts: int, bias: bool) -> Iterator[Weight]:
    """Make a projection whose outputs are cut over ranks, and its bias with them."""
    yield Weight(name=name, kind=kind, shape=(outputs, inputs), multiplied=True, parts=parts)
    if bias:
        yield Weight(name=f"{name}.bias", kind=kind, shape=(outputs,), parts=parts)


def _in_split(name: str, kind: str, outputs: int, inputs: int, parts: int, bias: bool) -> Iterator[Weight]:
    """Make a projection whose inputs are cut over ranks; every rank holds its bias."""
    yield Weight(name=name, kind=kind, shape=(outputs, inputs), multiplied=True, parts=parts)
    if bias:
        yield Weight(name=f"{name}.bias", kind=kind, shape=(outputs,))


def _attention(shape: ModelShape) -> Iterator[Weight]:
    heads, kv_heads, hidden = shape.num_heads, shape.num_kv_heads, shape.hidden_size
    for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        yield from _out_split(f"attention.{name}", "attention", count * shape.head_dim, hidden, count, shape.qkv_bias)
    yield from _in_split("attention.o", "attention", hidden, heads * shape.head_dim, heads, shape.o_bias)
    if shape.qk_norm:
        yield Weight(name="attention.q_norm", kind="norms", shape=(shape.head_dim,))
        yield Weight(name="attention.k_norm", kind="norms", shape=(shape.head_dim,))


def _latent(shape: ModelShape, latent: LatentAttention) -> Iterator[Weight]:
    """MLA: the projections to latents are whole on every rank, those from latents to heads are cut by heads."""
    heads, hidden, rank = shape.num_heads, shape.hidden_size, latent.query_rank
    if rank:
        yield from _out_split("attention.q_down", "attention", rank, hidden, 1, shape.qkv_bias)
        yield from _norm(shape, "attention.q_norm", rank)
    yield from _out_split("attention.q_up", "attention", heads * shape.head_dim, rank or hidden, heads, False)
    down = latent.key_value_rank + latent.rope_dim
    yield from _out_split("attention.kv_down", "attention", down, hidden, 1, shape.qkv_bias)
    yield from _norm(shape, "attention.kv_norm", latent.key_value_rank)
    up = heads * (latent.plain_dim + latent.value_dim)
    yield from _out_split("attention.kv_up", "attention", up, latent.key_value_rank, heads, False)
    yield from _in_split("attention.o", "attention", hidden, heads * latent.value_dim, heads, shape.o_bias)


def _mlp(shape: ModelShape, kind: str, width: int) -> Iterator[Weight]:
    if shape.activation == "swiglu":
        yield from _out_split(f"{kind}.gate", kind, width, shape.hidden_size, width, shape.mlp_bias)
    yield from _out_split(f"{kind}.up", kind, width, shape.hidden_size, width, shape.mlp_bias)
    yield from _in_split(f"{kind}.down", kind, shape.hidden_size, width, width, shape.mlp_bias)


def _experts(shape: ModelShape, experts: Experts) -> Iterator[Weight]:
    yield Weight(name="router", kind="router", shape=(experts.count, shape.hidden_size), multiplied=True)
    if experts.router_bias:
        yield Weight(name="router.bias", kind="router", shape=(experts.count,))
    for name, rows, columns in (
        ("gate", experts.intermediate_size, shape.hidden_size),
        ("up", experts.intermediate_size, shape.hidden_size),
        ("down", shape.hidden_size, experts.intermediate_size),
    ):
        yield Weight(
            name=f"experts.{name}",
            kind="experts",
            shape=(rows, columns),
            copies=experts.count,
            active=experts.per_token,
            multiplied=True,
            parts=experts.intermediate_size,
        )
    if experts.shared_size:
        yield from _mlp(shape, "shared_expert", experts.shared_size)
