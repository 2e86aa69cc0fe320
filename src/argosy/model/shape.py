"""The shape of a decoder-only transformer: everything that its parameters, FLOPs and bytes follow from.

Pure data, and what Argosy's trainer can't run of it. It knows neither the files a shape is read from nor what it costs.

Units of a model are counted as in `contracts.plan`: -1 = embedding, 0..num_layers-1 = decoder layers, num_layers =
final norm and output head.
"""

from dataclasses import dataclass, field
from typing import Any

from argosy.contracts.errors import BadInputError

TRAINER_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
TRAINER_ROPE_TYPES = ("default", "llama3")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA): queries, keys and values pass through low-rank latents.

    query_rank: None where queries are projected directly. key_value_rank: width of the latent that keys and values
    share. plain_dim, rope_dim: parts of a query or key head without and with rotary positions; the rotary part of the
    key is one for all heads. value_dim: width of a value head. Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1.
    """

    query_rank: int | None
    key_value_rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the MLP of some layers.

    count: experts to route over. per_token: how many of them a token visits. intermediate_size: width of one.
    shared_size: width of the MLP that every token visits besides; 0 without. layers: for each layer of the model,
    whether it has experts. router_bias: the router keeps one bias an expert (DeepSeek-V3's load balancing).
    """

    count: int
    per_token: int
    intermediate_size: int
    layers: tuple[bool, ...]
    shared_size: int = 0
    router_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer by its numbers.

    head_dim: width of a query or key head. intermediate_size: width of a dense layer's MLP. max_positions: longest
    sequence that the configuration states. tied_embeddings: the output head is the embedding. learned_positions: rows
    of the table of learned positions, 0 without one (OPT has two more than positions). embedding_size: width of the
    token table where it is projected to hidden_size (OPT-350m), None where equal.
    activation: swiglu (gate, up and down matrices), gelu or relu (up and down). norm: rms (a scale) or layer (a scale
    and a bias). post_norm: norms follow the blocks. final_norm: a norm stands before the head.
    qkv_bias, o_bias, mlp_bias, head_bias: those projections have biases. qk_norm: queries and keys are normalised per
    head. rope_theta: base of rotary positions, None without them. rope_share: part of each head that rotates.
    rope_scaling: the raw entry of the configuration, None where positions are not rescaled.
    windows: for each layer, how many tokens back it attends, itself included; None attends to all; empty where no layer
    has a window. mtp_modules: modules that predict further tokens while training (multi-token prediction, DeepSeek-V3,
    arXiv 2412.19437, section 2.2): each joins the hidden state with the next token's embedding, runs one more layer of
    the last layer's kind, and shares embedding and head. They stand with the head, and published counts leave them out.
    """

    name: str
    family: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_positions: int
    tied_embeddings: bool
    learned_positions: int = 0
    embedding_size: int | None = None
    activation: str = "swiglu"
    norm: str = "rms"
    norm_epsilon: float = 1e-5
    post_norm: bool = False
    final_norm: bool = True
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    rope_theta: float | None = None
    rope_share: float = 1.0
    rope_scaling: dict[str, Any] | None = field(default=None, hash=False)
    windows: tuple[int | None, ...] = ()
    latent: LatentAttention | None = None
    experts: Experts | None = None
    mtp_modules: int = 0

    @property
    def units(self) -> range:
        """All units of the model, ascending: embedding, layers, head."""
        return range(-1, self.num_layers + 1)

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.latent.value_dim if self.latent else self.head_dim

    def window(self, layer: int) -> int | None:
        """How many tokens back a layer attends, itself included; None attends to all."""
        return self.windows[layer] if self.windows else None

    def has_experts(self, layer: int) -> bool:
        """Whether a layer's MLP is a mixture of experts."""
        return self.experts is not None and self.experts.layers[layer]


def trainer_refusal(shape: ModelShape) -> str | None:
    """Say what of a shape Argosy's own trainer can't run, or None if it runs all of it."""
    for refused, what in _refusals(shape):
        if refused:
            runs = ", ".join(TRAINER_FAMILIES)
            return f"{shape.name}: the trainer can't run {what}; it runs dense models of the families {runs}"
    return None


def check_trainable(shape: ModelShape, asked: str = "") -> None:
    """Raise BadInputError where Argosy's own trainer can't run a shape; asked: what the text begins with."""
    if refusal := trainer_refusal(shape):
        raise BadInputError(f"{asked}: {refusal}" if asked else refusal)


def _refusals(shape: ModelShape) -> tuple[tuple[bool, str], ...]:
    scaling = shape.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return (
        (shape.experts is not None, "a mixture of experts"),
        (shape.latent is not None, "latent attention (MLA)"),
        (shape.family not in TRAINER_FAMILIES, f"the family {shape.family}"),
        (kind not in TRAINER_ROPE_TYPES, f"rotary positions rescaled by {kind!r}, only by {TRAINER_ROPE_TYPES[1]!r}"),
        (shape.rope_share != 1.0, f"rotary positions on {shape.rope_share:g} of each head"),
        (shape.o_bias or shape.mlp_bias, "biases on the output or MLP projections"),
    )
