"""The decoder against a naive one, and its cuts against the whole."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

from argosy.model.shape import ModelShape
from argosy.train.decoder import Attention, RMSNorm, StageModel, rotary_table, rotate, unit_of
from argosy.train.initial import draw
from argosy.train.weights.names import parameter_shapes
from support.training import config, shape_of

LENGTH = 12


def shape(layers: int = 3, **changes) -> ModelShape:
    """Give the shape of a tiny model; changes: other entries of its config.json."""
    return shape_of(json.dumps(json.loads(config(layers)) | changes))


QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
WINDOW = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 4}
SHAPES = {
    "llama": shape(),
    "tied": shape(tie_word_embeddings=True),
    "qwen2": shape(**QWEN2),
    "qwen3": shape_of(config(3, qk_norm=True)),
    "window": shape(**WINDOW),
}
every_shape = pytest.mark.parametrize("each", SHAPES.values(), ids=SHAPES)


def model(each: ModelShape, units=None, **given) -> StageModel:
    """Build a model, or the units of one stage, with weights that depend on names alone."""
    made = StageModel(each, list(each.units) if units is None else units, sequence_length=LENGTH, **given)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(draw(each, 0, name, tuple(parameter.shape)) * 3)
            if "norm" in name or name.endswith("bias"):
                parameter.add_(0.1 * torch.arange(parameter.numel()).cos())
    return made


def tokens(batch: int = 2) -> torch.Tensor:
    """Draw tokens."""
    return torch.randint(0, 64, (batch, LENGTH), generator=torch.Generator().manual_seed(1))


def norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Normalise by the textbook."""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight


def naive(each: ModelShape, w: dict[str, torch.Tensor], sequence: torch.Tensor) -> torch.Tensor:
    """Run one sequence through a decoder written with loops over heads and positions."""
    x = w["embedding.weight"][sequence]
    for n in range(each.num_layers):
        layer = {name.removeprefix(f"layers.{n}."): t for name, t in w.items() if name.startswith(f"layers.{n}.")}
        h = norm(x, layer["attention_norm.weight"], each.norm_epsilon)
        x = x + naive_attention(each, layer, h, each.window(n)) @ layer["attention.o.weight"].T
        h = norm(x, layer["mlp_norm.weight"], each.norm_epsilon)
        gate = h @ layer["mlp.gate.weight"].T
        x = x + (gate * torch.sigmoid(gate) * (h @ layer["mlp.up.weight"].T)) @ layer["mlp.down.weight"].T
    return norm(x, w["norm.weight"], each.norm_epsilon) @ w.get("head.weight", w["embedding.weight"]).T


def naive_attention(each: ModelShape, layer, h: torch.Tensor, window: int | None) -> torch.Tensor:
    """Attend head by head, query by query."""
    size, out = each.head_dim, []
    for head in range(each.num_heads):
        group = head // (each.num_heads // each.num_kv_heads)
        q, k, v = (naive_head(layer, h, name, n, size) for name, n in (("q", head), ("k", group), ("v", group)))
        if each.qk_norm:
            q = norm(q, layer["attention.q_norm.weight"], each.norm_epsilon)
            k = norm(k, layer["attention.k_norm.weight"], each.norm_epsilon)
        q, k = (naive_rotation(each, x) for x in (q, k))
        rows = []
        for i in range(len(h)):
            seen = range(max(0, i + 1 - (window or len(h))), i + 1)
            weights = torch.softmax(torch.stack([q[i] @ k[j] for j in seen]) / math.sqrt(size), 0)
            rows.append(sum(w * v[j] for w, j in zip(weights, seen, strict=True)))
        out.append(torch.stack(rows))
    return torch.cat(out, -1)


def naive_head(layer, h: torch.Tensor, name: str, head: int, size: int) -> torch.Tensor:
    """Project one head."""
    rows = slice(head * size, (head + 1) * size)
    bias = layer.get(f"attention.{name}.bias")
    return h @ layer[f"attention.{name}.weight"][rows].T + (0 if bias is None else bias[rows])


def naive_rotation(each: ModelShape, x: torch.Tensor) -> torch.Tensor:
    """Turn pair (i, i + half) of position p by p / base^(2i / size), as complex numbers."""
    half = each.head_dim // 2
    assert each.rope_theta is not None
    speed = torch.tensor([each.rope_theta ** (-2 * i / each.head_dim) for i in range(half)])
    angle = torch.arange(len(x))[:, None] * speed[None, :]
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


class TestAgainstNaive:
    """Same numbers as the textbook."""

    @every_shape
    def test_logits(self, each):
        """Rotary positions, grouped heads, windows, biases and norms give a naive decoder's logits."""
        made = model(each)
        weights = {name: p.detach() for name, p in made.named_parameters()}
        with torch.no_grad():
            found = made(tokens(1))[0]
        torch.testing.assert_close(found, naive(each, weights, tokens(1)[0]), rtol=1e-4, atol=1e-5)

    @every_shape
    def test_names_and_sizes(self, each):
        """Parameters are named and sized as the model's weights in files, whatever the family."""
        found = {name: tuple(p.shape) for name, p in model(each).named_parameters()}
        assert found == parameter_shapes(each)


class TestCausality:
    """The future is not seen."""

    @every_shape
    def test_later_tokens_change_no_earlier_logit(self, each):
        """Changing token 7 leaves logits 0..6 as they are, bit for bit, and changes logit 7."""
        made, changed = model(each), tokens()
        changed[:, 7] = (changed[:, 7] + 1) % 64
        with torch.no_grad():
            before, after = made(tokens()), made(changed)
        assert torch.equal(before[:, :7], after[:, :7])
        assert not torch.equal(before[:, 7], after[:, 7])

    def test_a_window_forgets(self):
        """With one layer and a window of 4, token 3 is seen by positions 3 to 6 and by none after."""
        made, changed = model(shape(1, **WINDOW)), tokens()
        changed[:, 3] = (changed[:, 3] + 1) % 64
        with torch.no_grad():
            moved = (made(tokens()) != made(changed)).any(-1).any(0)
        assert moved.nonzero().flatten().tolist() == [3, 4, 5, 6]


class TestCuts:
    """Stages composed are the whole."""

    @every_shape
    @pytest.mark.parametrize("cuts", [[0, 3], [1, 2], [2], [1]], ids=str)
    def test_units_compose(self, each, cuts):
        """Units run one stage after another give the whole model's logits, bit for bit."""
        units = list(each.units)
        edges = [0, *(cut + 1 for cut in cuts), len(units)]
        x = tokens()
        with torch.no_grad():
            for first, end in itertools.pairwise(edges):
                x = model(each, units[first:end])(x) if first < end else x
            assert torch.equal(x, model(each)(tokens()))

    def test_unit_of(self):
        """A parameter's unit follows from its name."""
        names = ("embedding.weight", "layers.0.mlp.up.weight", "layers.11.attention_norm.weight", "norm.weight")
        assert [unit_of(name, 12) for name in (*names, "head.weight")] == [-1, 0, 11, 12, 12]

    def test_a_tied_head_is_one_weight(self):
        """One stage keeps a tied weight once; a last stage without the embedding keeps a copy of the same name."""
        each = SHAPES["tied"]
        assert [n for n, _ in model(each).named_parameters()].count("embedding.weight") == 1
        assert [n for n, _ in model(each, [3]).named_parameters()] == ["embedding.weight", "norm.weight"]


def gradients(made: StageModel) -> dict[str, torch.Tensor]:
    """Run forward and backward of a loss."""
    logits = made(tokens()).float()
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens().flatten()).backward()
    return {name: p.grad for name, p in made.named_parameters() if p.grad is not None}


class TestRecompute:
    """Less memory, same gradients."""

    @every_shape
    def test_gradients_are_equal(self, each):
        """Recomputing a layer in backward gives the gradients of keeping it, bit for bit, for every parameter."""
        plain, again = gradients(model(each)), gradients(model(each, recompute=True))
        assert plain.keys() == again.keys() == parameter_shapes(each).keys()
        assert all(torch.equal(plain[name], again[name]) for name in plain)


class TestPrecision:
    """bf16."""

    @every_shape
    def test_bf16_is_close(self, each):
        """In bf16 logits differ from fp32 by a few percent of their spread; parameters and gradients stay fp32."""
        made = model(each, compute_dtype=torch.bfloat16)
        exact = model(each)(tokens())
        assert (made(tokens()).float() - exact).std() < 0.08 * exact.std()
        assert {g.dtype for g in gradients(made).values()} == {torch.float32}

    def test_hidden_travels_in_bf16(self):
        """What one stage hands the next is bf16, half the bytes."""
        each = SHAPES["llama"]
        assert model(each, [-1, 0], compute_dtype=torch.bfloat16)(tokens()).dtype == torch.bfloat16

    def test_norm_computes_in_float32(self):
        """A norm of large bf16 values neither overflows nor changes dtype."""
        x = torch.full((1, 8), 3e38, dtype=torch.bfloat16)
        assert RMSNorm(8, 1e-5)(x / 1e10).dtype == torch.bfloat16
        torch.testing.assert_close(RMSNorm(8, 1e-5)(x / 1e20), torch.ones(1, 8, dtype=torch.bfloat16))


class TestRotation:
    """Rotary positions."""

    def test_only_distance_matters(self):
        """The product of a query and a key depends on how far apart they are, not on where."""
        cos, sin = rotary_table(shape(), LENGTH)
        generator = torch.Generator().manual_seed(0)
        q, k = (rotate(torch.randn(8, generator=generator).expand(LENGTH, 8), cos, sin) for _ in "qk")
        products = q @ k.T
        for distance in range(LENGTH):
            diagonal = products.diagonal(-distance)
            torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-5)

    def test_llama3_scaling(self):
        """Fast pairs keep their speed, slow ones are 8 times slower, those between lie between (Llama 3.1)."""
        entry = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        plain = replace(shape(), head_dim=128, rope_theta=500_000.0)
        tables = [rotary_table(each, 2) for each in (plain, replace(plain, rope_scaling=entry))]
        before, after = (torch.atan2(sin[1], cos[1])[:64] for cos, sin in tables)
        ratio = (after / before).tolist()
        assert ratio[0] == pytest.approx(1)
        assert ratio[-1] == pytest.approx(1 / 8, rel=1e-3)
        assert ratio == pytest.approx(sorted(ratio, reverse=True))
        wave = [2 * math.pi * 500_000 ** (2 * i / 128) for i in range(64)]
        middle = [i for i, w in enumerate(wave) if 8192 / 4 < w < 8192]
        for i in middle:
            smooth = (8192 / wave[i] - 1) / 3
            assert ratio[i] == pytest.approx(smooth + (1 - smooth) / 8, rel=1e-3)


class TestAttention:
    """Local heads."""

    def test_follows_local_weights(self):
        """With half of the heads' weights, as TP leaves them, it attends with half of the heads."""
        whole = Attention(shape(), None)
        x, (cos, sin) = torch.randn(1, LENGTH, 32), rotary_table(shape(), LENGTH)
        parts = []
        for half in (0, 1):
            part = Attention(shape(), None)
            for name in ("q", "k", "v"):
                rows = getattr(whole, name).weight.chunk(2)[half]
                getattr(part, name).weight = torch.nn.Parameter(rows.clone())
            part.o.weight = torch.nn.Parameter(whole.o.weight.chunk(2, dim=1)[half].clone())
            parts.append(part(x, cos, sin))
        torch.testing.assert_close(parts[0] + parts[1], whole(x, cos, sin), rtol=1e-4, atol=1e-6)
