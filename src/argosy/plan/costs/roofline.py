"""What a unit of the model asks of one chip, and how long a chip of given rates takes for it.

Matrix products, attention and element-wise traffic are counted apart, for chips reach different parts of their peaks in
them. It must not know exchanges between chips, pipelines or whose figures the rates are.
"""

from dataclasses import dataclass

from argosy.contracts.fleet import Chip
from argosy.model.flops import attention_flops_per_token
from argosy.model.memory import Split, rank_parameters
from argosy.model.numerics import Numerics
from argosy.model.shape import ModelShape
from argosy.model.tensors import unit_weights
from argosy.plan.costs.curves import Curve

# Element-wise traffic of a layer in 16 bits, counted from it. Bytes of each number of the hidden state, forward: two
# norms read and write it (8), two residuals read two, write one and a dropout mask (14). Backward: two norms read
# gradient and input and write (12), two dropouts read gradient and mask and write (10), two residuals add (12). An
# activation reads and writes each of its arrays, backward as gradients too.
NORM_FORWARD_BYTES, NORM_BACKWARD_BYTES = 22, 34
# Attention scores that are written out: scale and mask, softmax, dropout, each read and written; bytes a score.
SCORE_BYTES = 12
# Logits in 16 bits: written, cast to 32, read and written for maximum, difference, exponent, sum and quotient; and
# backward once through and cast again. Bytes a logit.
LOGIT_FORWARD_BYTES, LOGIT_BACKWARD_BYTES = 30, 20
# Arrays as wide as the MLP that its activation reads and writes, by kind.
ACTIVATION_ARRAYS = {"swiglu": 3, "gelu": 2, "relu": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one micro-batch's forward through a unit asks of one rank.

    products: how many matrix products there are. moved_bytes: element-wise, forward; moved_backward_bytes likewise.
    score_bytes: of attention scores, where they are written out. weight_bytes: of the weights that must be read.
    """

    products: int
    product_flops: float
    attention_flops: float
    moved_bytes: float
    moved_backward_bytes: float
    score_bytes: float
    weight_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a chip does in a millisecond: FLOPs in products and in attention, bytes of memory; start_ms a product."""

    product_flops: float
    attention_flops: float
    memory_bytes: float
    start_ms: float = 0.0


def rates_of(chip: Chip, precision: str, curve: Curve, *, fused: bool) -> Rates:
    """Give a chip's rates in a precision; attention that is not fused is made of plain products.

    The chip must have a peak for the precision. Memory whose bandwidth nobody states holds nothing up.
    """
    peak = chip.tflops[precision] * 1e9
    return Rates(
        product_flops=peak * curve.products,
        attention_flops=peak * (curve.attention if fused else curve.products),
        memory_bytes=(chip.memory_gbytes_s or float("inf")) * 1e6 * curve.memory,
        start_ms=curve.start_ms,
    )


def work_of(shape: ModelShape, unit: int, numerics: Numerics, split: Split, *, fused: bool) -> Work:
    """Count what one micro-batch's forward through a unit asks of one rank."""
    weights = [weight for weight in unit_weights(shape, unit) if weight.multiplied]
    flops = sum(2 * weight.active_parameters / min(split.tp, weight.parts) for weight in weights)
    attention = attention_flops_per_token(shape, unit, split.sequence_length, "half" if fused else "full") / split.tp
    forward, backward = _moved(shape, unit, split)
    layers = 1 if 0 <= unit < shape.num_layers else shape.mtp_modules * (unit > 0)
    scores = 0 if fused else layers * split.tokens * split.sequence_length * shape.num_heads / split.tp
    wide = numerics.compute_bytes / 2
    return Work(
        products=len(weights),
        product_flops=split.tokens * flops,
        attention_flops=split.tokens * attention,
        moved_bytes=wide * forward,
        moved_backward_bytes=wide * backward,
        score_bytes=wide * scores * SCORE_BYTES,
        weight_bytes=_weight_bytes(shape, unit, numerics, split),
    )


def _weight_bytes(shape: ModelShape, unit: int, numerics: Numerics, split: Split) -> float:
    """Give the rank's weights as they are multiplied, or the rows that the embedding looks up."""
    if unit < 0:
        return split.tokens * shape.hidden_size * numerics.weight_bytes
    return rank_parameters(shape, unit, split.tp, split.ep) * numerics.compute_bytes


def _moved(shape: ModelShape, unit: int, split: Split) -> tuple[float, float]:
    """Count the bytes of element-wise work in 16 bits, forward and backward."""
    share = split.tp if split.sequence_parallel else 1
    if unit < 0:
        looked_up = 4.0 * split.tokens * shape.hidden_size / share
        return looked_up, 2 * looked_up
    if unit == shape.num_layers:
        logits = split.tokens * shape.vocab_size / split.tp * (1 + shape.mtp_modules)
        forward, backward = _layer_moved(shape, unit - 1, split, share) if shape.mtp_modules else (0.0, 0.0)
        modules = shape.mtp_modules
        return LOGIT_FORWARD_BYTES * logits + modules * forward, LOGIT_BACKWARD_BYTES * logits + modules * backward
    return _layer_moved(shape, unit, split, share)


def _layer_moved(shape: ModelShape, unit: int, split: Split, share: int) -> tuple[float, float]:
    experts = shape.experts if shape.has_experts(unit) else None
    width = experts.per_token * experts.intermediate_size + experts.shared_size if experts else shape.intermediate_size
    # A token's copies are gathered for its experts and summed up again, each read and written.
    copies = 8 * experts.per_token if experts else 0
    wide = 2 * ACTIVATION_ARRAYS[shape.activation] * width / split.tp
    forward = shape.hidden_size * (NORM_FORWARD_BYTES + copies) / share + wide
    backward = shape.hidden_size * (NORM_BACKWARD_BYTES + 2 * copies) / share + 2 * wide
    return split.tokens * forward, split.tokens * backward


def forward_ms(work: Work, rates: Rates) -> float:
    """Time a forward: products, attention and element-wise work one after another, never faster than weights come."""
    products = product_ms(work, rates)
    moved = (work.moved_bytes + work.score_bytes) / rates.memory_bytes
    return products + attention_ms(work, rates) + moved


def backward_ms(work: Work, rates: Rates, recompute: str) -> float:
    """Time a backward: twice the forward's arithmetic, and again what is recomputed."""
    moved = (work.moved_backward_bytes + 2 * work.score_bytes) / rates.memory_bytes
    plain = 2 * (product_ms(work, rates) + attention_ms(work, rates)) + moved
    if recompute == "full":
        return plain + forward_ms(work, rates)
    if recompute == "selective":
        return plain + attention_ms(work, rates) + work.score_bytes / rates.memory_bytes
    return plain


def product_ms(work: Work, rates: Rates) -> float:
    """Time the matrix products of a forward; those that make the weights' gradients take as long."""
    arithmetic = work.product_flops / rates.product_flops + work.products * rates.start_ms
    return max(arithmetic, work.weight_bytes / rates.memory_bytes)


def attention_ms(work: Work, rates: Rates) -> float:
    """Time scores and context of a forward."""
    return work.attention_flops / rates.attention_flops
