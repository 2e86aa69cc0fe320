"""Bytes of weights, gradients, optimizer and activations, for one unit on one rank.

The formulas are those of Korthikanti et al. (arXiv 2205.05198, sections 4 and 5), generalised to grouped queries, gated
MLPs, latent attention and experts: numbers that a layer keeps for its backward, times the bytes of a Numerics. Tokens
are taken as spread evenly over experts. It knows no schedule: how many micro-batches are in flight is the planner's.
"""

import math
from dataclasses import dataclass

from argosy.contracts.errors import BadInputError
from argosy.model.flops import RECOMPUTE_WAYS
from argosy.model.numerics import Numerics
from argosy.model.shape import LatentAttention, ModelShape
from argosy.model.tensors import Weight, unit_weights

TOKEN_ID_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How one micro-batch is laid over ranks.

    microbatch_size: sequences. tp, cp, ep: degrees of tensor, context and expert parallelism; CP cuts every sequence,
    EP ranks have micro-batches of their own. sequence_parallel: norms and residuals are cut along the sequence inside
    the TP group (Argosy's trainer doesn't).
    """

    microbatch_size: int
    sequence_length: int
    tp: int = 1
    cp: int = 1
    ep: int = 1
    sequence_parallel: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one CP rank."""
        return self.microbatch_size * _ceil(self.sequence_length, self.cp)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes that stay through a step on one rank. buffers: of gradient exchange and update."""

    weights: int
    gradients: int
    buffers: int
    optimizer: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.buffers + self.optimizer


def rank_parameters(shape: ModelShape, unit: int, tp: int = 1, ep: int = 1) -> int:
    """Count a unit's parameters on the fullest rank of a TP and EP group.

    A weight that TP can't cut further (norms, routers, keys where there are fewer heads than ranks) is whole on each.
    """
    return sum(rank_parameters_apart(shape, unit, tp, ep))


def rank_parameters_apart(shape: ModelShape, unit: int, tp: int = 1, ep: int = 1) -> tuple[int, int]:
    """Count a unit's parameters on the fullest rank: those that every EP rank has, and those of its own experts."""
    _check_degrees(tp, ep)
    weights = unit_weights(shape, unit)
    everywhere = sum(_on_rank(weight, tp, ep) for weight in weights if weight.kind != "experts")
    return everywhere, sum(_on_rank(weight, tp, ep) for weight in weights if weight.kind == "experts")


def _on_rank(weight: Weight, tp: int, ep: int) -> int:
    copies = _ceil(weight.copies, ep) if weight.kind == "experts" else weight.copies
    return _ceil(math.prod(weight.shape), min(tp, weight.parts)) * copies


def _ceil(amount: int, parts: int) -> int:
    return -(-amount // parts)


def _check_degrees(tp: int, ep: int) -> None:
    for name, degree in (("tp", tp), ("ep", ep)):
        if degree < 1:
            raise BadInputError(f"{name}: got {degree}; expected 1 or more")


def state_bytes(
    shape: ModelShape,
    unit: int,
    numerics: Numerics,
    *,
    tp: int = 1,
    ep: int = 1,
    optimizer_shards: int = 1,
    gradient_shards: int = 1,
    weight_shards: int = 1,
) -> StateBytes:
    """Give the bytes of weights, gradients, buffers and AdamW state of a unit on one rank.

    Shards: over how many ranks that hold the same weights something is cut (ZeRO-1: the optimizer, 2: gradients too, 3:
    weights too); 1 when not. They count the holders of what every EP rank has; one EP rank's experts have 1/ep of them.
    A tied head has its norm alone; where it stands on another stage than the embedding, that stage holds a copy of the
    embedding: add `copied_embedding_bytes`.
    """
    shards = (optimizer_shards, gradient_shards, weight_shards)
    everywhere, experts = rank_parameters_apart(shape, unit, tp, ep)
    states = _state(everywhere, numerics, *shards), _state(experts, numerics, *(_ceil(n, ep) for n in shards))
    return StateBytes(
        weights=sum(state.weights for state in states),
        gradients=sum(state.gradients for state in states),
        buffers=sum(state.buffers for state in states),
        optimizer=sum(state.optimizer for state in states),
    )


def copied_embedding_bytes(
    shape: ModelShape,
    numerics: Numerics,
    *,
    tp: int = 1,
    optimizer_shards: int = 1,
    gradient_shards: int = 1,
    weight_shards: int = 1,
) -> StateBytes:
    """Give the bytes of the copy of an embedding that a last stage holds which is not also the first.

    Where the head is the embedding, or where modules for multi-token prediction look tokens up.
    """
    table = next(weight for weight in unit_weights(shape, -1) if weight.name == "embedding")
    parameters = _on_rank(table, tp, 1) if shape.tied_embeddings or shape.mtp_modules else 0
    return _state(parameters, numerics, optimizer_shards, gradient_shards, weight_shards)


def _state(
    parameters: int, numerics: Numerics, optimizer_shards: int, gradient_shards: int, weight_shards: int
) -> StateBytes:
    names = ("optimizer_shards", "gradient_shards", "weight_shards")
    for name, shards in zip(names, (optimizer_shards, gradient_shards, weight_shards), strict=True):
        if shards < 1:
            raise BadInputError(f"{name}: got {shards}; expected 1 or more")
    gathered = parameters * numerics.gather_bytes if optimizer_shards > 1 else 0
    return StateBytes(
        weights=_ceil(parameters * numerics.weight_bytes, weight_shards),
        gradients=_ceil(parameters * numerics.gradient_bytes, gradient_shards),
        # A sharded exchange has a whole buffer to gather into and one of a shard's size to reduce into.
        buffers=parameters * numerics.buffer_bytes
        + gathered
        + _ceil(gathered, optimizer_shards)
        + _ceil(parameters * numerics.update_bytes, optimizer_shards),
        optimizer=_ceil(parameters * numerics.optimizer_bytes, optimizer_shards),
    )


def boundary_bytes(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    """Give the bytes of the activations that pass from one stage to the next, one micro-batch, one direction."""
    return split.tokens * shape.hidden_size * numerics.compute_bytes


def activation_bytes(shape: ModelShape, unit: int, numerics: Numerics, split: Split, recompute: str = "none") -> int:
    """Give the bytes that one micro-batch keeps on one rank from a unit's forward until its backward.

    recompute: none; selective drops attention's scores; full keeps a layer's input alone, and only layers are
    recomputed. Cast copies of weights (`Numerics.copy_bytes`) are included.
    """
    _check_degrees(split.tp, split.ep)
    if recompute not in RECOMPUTE_WAYS:
        raise BadInputError(f"recompute: got {recompute!r}; expected {', '.join(RECOMPUTE_WAYS)}")
    if unit == -1:
        return _embedding_bytes(shape, numerics, split)
    if unit == shape.num_layers:
        modules = shape.mtp_modules * _mtp_bytes(shape, numerics, split) if shape.mtp_modules else 0
        return _head_bytes(shape, numerics, split) + modules + _copies_bytes(shape, unit, numerics, split)
    if recompute == "full":
        return _whole(split, split.tokens * shape.hidden_size * numerics.compute_bytes)
    scores = recompute == "none"
    kept = _attention_bytes(shape, numerics, split, scores) + _mlp_bytes(shape, unit, numerics, split)
    return kept + _copies_bytes(shape, unit, numerics, split)


def workspace_bytes(shape: ModelShape, unit: int, numerics: Numerics, split: Split, recompute: str = "none") -> int:
    """Give the bytes that a unit needs besides while it runs backward, once a rank and not for each micro-batch.

    A fully recomputed layer makes all its activations again; the head holds gradients of logits; any other layer the
    gradients around its widest part.
    """
    if unit == shape.num_layers:
        return split.tokens * _vocabulary(shape, numerics, split) * numerics.logits_workspace_bytes
    if unit == -1:
        return split.tokens * shape.hidden_size * numerics.compute_bytes
    again = activation_bytes(shape, unit, numerics, split, "none") if recompute == "full" else 0
    wide = max(shape.num_heads * shape.head_dim, _width(shape, unit)) // split.tp
    return again + split.tokens * (2 * shape.hidden_size + 3 * wide) * numerics.compute_bytes


def _whole(split: Split, amount: int) -> int:
    """Give a rank's part of what only sequence parallelism cuts."""
    return _ceil(amount, split.tp) if split.sequence_parallel else amount


def _copies_bytes(shape: ModelShape, unit: int, numerics: Numerics, split: Split) -> int:
    if not numerics.copy_bytes:
        return 0
    matrices = sum(_on_rank(weight, split.tp, split.ep) for weight in unit_weights(shape, unit) if weight.multiplied)
    if unit == shape.num_layers and shape.tied_embeddings:
        matrices += _ceil(shape.vocab_size, split.tp) * (shape.embedding_size or shape.hidden_size)
    return matrices * numerics.copy_bytes


def _embedding_bytes(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    projected = (shape.embedding_size or 0) * numerics.compute_bytes
    mask = shape.hidden_size if numerics.dropout else 0
    return split.tokens * TOKEN_ID_BYTES + _whole(split, split.tokens * (projected + mask))


def _head_bytes(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    norm = shape.hidden_size * numerics.norm_bytes + numerics.statistic_bytes
    hidden = norm if shape.final_norm else shape.hidden_size * numerics.compute_bytes
    projected = (shape.embedding_size or 0) * numerics.compute_bytes
    logits = split.tokens * _vocabulary(shape, numerics, split) * numerics.logits_bytes
    return _whole(split, split.tokens * (hidden + projected)) + logits + split.tokens * TOKEN_ID_BYTES


def _mtp_bytes(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    """Give what a module for multi-token prediction keeps: two norms, what they are joined to, a layer and a head."""
    last = shape.num_layers - 1
    joined = _whole(split, split.tokens * 2 * shape.hidden_size * numerics.compute_bytes)
    layer = _attention_bytes(shape, numerics, split, scores=True) + _mlp_bytes(shape, last, numerics, split)
    return 2 * _norm_bytes(shape, numerics, split) + joined + layer + _head_bytes(shape, numerics, split)


def _vocabulary(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    return _ceil(shape.vocab_size, split.tp) if numerics.split_logits else shape.vocab_size


def _norm_bytes(shape: ModelShape, numerics: Numerics, split: Split) -> int:
    """Give what a block's norm keeps, its output (the block's input) included, and the mask of the block's dropout."""
    mask = shape.hidden_size if numerics.dropout else 0
    per_token = shape.hidden_size * numerics.norm_bytes + numerics.statistic_bytes + mask
    return _whole(split, split.tokens * per_token)


def _attention_bytes(shape: ModelShape, numerics: Numerics, split: Split, scores: bool) -> int:
    latent = shape.latent
    kv_heads = shape.num_heads if latent else max(shape.num_kv_heads, split.tp)
    queries = shape.num_heads * shape.head_dim
    keys, values = kv_heads * shape.head_dim, kv_heads * shape.value_dim
    mixed = shape.num_heads * shape.value_dim
    per_token = (queries + keys + values + mixed) * numerics.compute_bytes
    if shape.qk_norm:
        # The normalised heads are the queries and keys counted above.
        extra = numerics.norm_bytes - numerics.compute_bytes
        per_token += (queries + keys) * extra + (shape.num_heads + kv_heads) * numerics.statistic_bytes
    if not numerics.score_bytes:
        per_token += shape.num_heads * numerics.statistic_bytes
    elif scores:
        masks = 1 if numerics.dropout else 0
        per_token += shape.num_heads * split.sequence_length * (numerics.score_bytes + masks)
    whole = _latent_bytes(latent, numerics) if latent else 0
    return _norm_bytes(shape, numerics, split) + split.tokens * (whole + _ceil(per_token, split.tp))


def _latent_bytes(latent: LatentAttention, numerics: Numerics) -> int:
    """Give what the norms of MLA's latents keep of a token; every TP rank has all of it."""
    width = (latent.query_rank or 0) + latent.key_value_rank
    return width * numerics.norm_bytes + 2 * numerics.statistic_bytes


def _width(shape: ModelShape, unit: int) -> int:
    """Give how wide the MLPs that one token visits are in a layer, all together."""
    experts = shape.experts
    if experts and shape.has_experts(unit):
        return experts.per_token * experts.intermediate_size + experts.shared_size
    return shape.intermediate_size


def _mlp_bytes(shape: ModelShape, unit: int, numerics: Numerics, split: Split) -> int:
    # swiglu keeps gate, up, silu(gate) and their product; gelu its input and output; relu its output.
    kept = {"swiglu": 3 if numerics.fused_activation else 4, "gelu": 2, "relu": 1}[shape.activation]
    per_token = _width(shape, unit) * kept * numerics.compute_bytes
    routed = 0
    if shape.experts and shape.has_experts(unit):
        # A token's copies on their way to its experts and back, and the router's scores in fp32.
        routed = 2 * shape.experts.per_token * shape.hidden_size * numerics.compute_bytes + 4 * shape.experts.count
    return _norm_bytes(shape, numerics, split) + split.tokens * (routed + _ceil(per_token, split.tp))
