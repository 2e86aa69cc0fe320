"""A Llama-style decoder in plain PyTorch, cut into the units that a pipeline stage holds.

RMSNorm, rotary positions, grouped-query attention, SwiGLU; covers Llama, Mistral, Qwen2 and Qwen3 (dense). Layers are
keyed by their global index, so a parameter has the same name under every plan. Knows nothing of ranks, groups or plans:
tensor parallelism is applied from outside (`train.tensor_parallel`).

Shapes in names: B micro-batch, S sequence, D hidden, H heads, K key-value heads, E head dimension, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute_in_backward

from argosy.model.shape import ModelShape

DEFAULT_ROPE_THETA = 10_000.0  # arXiv 2104.09864


class RMSNorm(nn.Module):
    """Root-mean-square norm (arXiv 1910.07467), computed in float32, returned in the input's dtype."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dim."""
        x32 = x.float()
        scale = torch.rsqrt(x32.square().mean(-1, keepdim=True) + self.epsilon)
        return (x32 * scale * self.weight.float()).to(x.dtype)


def rotary_table(shape: ModelShape, sequence_length: int) -> tuple[Tensor, Tensor]:
    """Give cos and sin of rotary positions (arXiv 2104.09864), each [S, E] in float32.

    With rope_scaling of type `llama3`, frequencies are stretched as Llama 3.1's model card defines.
    """
    half = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    base = shape.rope_theta or DEFAULT_ROPE_THETA
    frequency = _scaled(1.0 / base**half, shape.rope_scaling)
    angle = torch.outer(torch.arange(sequence_length, dtype=torch.float64), frequency)
    both = torch.cat([angle, angle], dim=-1)
    return both.cos().float(), both.sin().float()


def _scaled(frequency: Tensor, scaling: dict[str, object] | None) -> Tensor:
    """Stretch low frequencies by `factor`, keep high ones, blend between (Llama 3.1)."""
    if not scaling or scaling.get("rope_type", scaling.get("type", "default")) != "llama3":
        return frequency
    value = {key: float(scaling[key]) for key in ("factor", "low_freq_factor", "high_freq_factor")}  # type: ignore[arg-type]
    original = float(scaling["original_max_position_embeddings"])  # type: ignore[arg-type]
    turns = original * frequency / (2 * math.pi)
    blend = (turns - value["low_freq_factor"]) / (value["high_freq_factor"] - value["low_freq_factor"])
    blend = blend.clamp(0.0, 1.0)
    return frequency * (blend + (1 - blend) / value["factor"])


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn [B, heads, S, E] by its position; halves are paired as in Hugging Face checkpoints."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x.float() * cos + turned * sin).to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention; head counts follow the local weights, so TP needs no change here."""

    def __init__(self, shape: ModelShape, window: int | None) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        self.window = window
        q_size, kv_size = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        self.q = nn.Linear(shape.hidden_size, q_size, bias=shape.qkv_bias)
        self.k = nn.Linear(shape.hidden_size, kv_size, bias=shape.qkv_bias)
        self.v = nn.Linear(shape.hidden_size, kv_size, bias=shape.qkv_bias)
        self.o = nn.Linear(q_size, shape.hidden_size, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.norm_epsilon) if shape.qk_norm else None
        self.k_norm = RMSNorm(shape.head_dim, shape.norm_epsilon) if shape.qk_norm else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend over [B, S, D]."""
        q, k, v = (self._heads(projection(x)) for projection in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mask = _window_mask(q.shape[-2], self.window, q.device)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        out: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, width // self.head_dim, self.head_dim).transpose(1, 2)


def _window_mask(length: int, window: int | None, device: torch.device) -> Tensor | None:
    """Give the band of a sliding window, or None where plain causal attention sees the same."""
    if window is None or window >= length:
        return None
    position = torch.arange(length, device=device)
    distance = position[:, None] - position[None, :]
    return (distance >= 0) & (distance < window)


class FeedForward(nn.Module):
    """SwiGLU (arXiv 2002.05202): down(silu(gate(x)) * up(x))."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform [B, S, D]."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class DecoderLayer(nn.Module):
    """One layer: attention and feed-forward, each behind a norm and beside the residual stream."""

    def __init__(self, shape: ModelShape, layer: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(shape.hidden_size, shape.norm_epsilon)
        self.attention = Attention(shape, shape.windows[layer] if shape.windows else None)
        self.mlp_norm = RMSNorm(shape.hidden_size, shape.norm_epsilon)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Transform [B, S, D]."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class StageModel(nn.Module):
    """The units that one stage computes; the whole model when it holds them all.

    units: ascending, -1 = embedding, num_layers = final norm and head. Takes tokens [B, S] on the first stage, else
    hidden [B, S, D] in `compute_dtype`; gives logits [B, S, V] on the last stage, else hidden.
    With tied embeddings the head's weight *is* the embedding's; where the two live on different stages each keeps a
    copy of the same name, and the gradient exchange keeps them equal.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        shape: ModelShape,
        units: Sequence[int],
        *,
        sequence_length: int,
        compute_dtype: torch.dtype = torch.float32,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.compute_dtype = compute_dtype
        self.recompute = recompute
        tied_copy = shape.tied_embeddings and shape.num_layers in units
        holds_embedding = -1 in units
        self.embeds = holds_embedding
        self.embedding = nn.Embedding(shape.vocab_size, shape.hidden_size) if holds_embedding or tied_copy else None
        layers = [unit for unit in units if 0 <= unit < shape.num_layers]
        self.layers = nn.ModuleDict({str(unit): DecoderLayer(shape, unit) for unit in layers})
        self.norm: RMSNorm | None = None
        self.head: nn.Linear | None = None
        if shape.num_layers in units:
            self.norm = RMSNorm(shape.hidden_size, shape.norm_epsilon)
            self.head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        self.tied = tied_copy
        self.tie()
        cos, sin = rotary_table(shape, sequence_length)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run the stage on one micro-batch."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.compute_dtype == torch.bfloat16):
            if self.embeds and self.embedding is not None:
                x = self.embedding(x).to(self.compute_dtype)
            for layer in self.layers.values():
                if self.recompute and self.training:
                    x = recompute_in_backward(layer, x, self.cos, self.sin, use_reentrant=False)
                else:
                    x = layer(x, self.cos, self.sin)
            return x if self.norm is None or self.head is None else self.head(self.norm(x))

    def tie(self) -> None:
        """Make the head's weight the embedding's where the model says so; call again after either was replaced."""
        if self.tied and self.embedding is not None and self.head is not None:
            self.head.weight = self.embedding.weight


def unit_of(name: str, num_layers: int) -> int:
    """Tell which unit a parameter belongs to, by its name."""
    if name.startswith("layers."):
        return int(name.split(".")[1])
    return -1 if name.startswith("embedding.") else num_layers
