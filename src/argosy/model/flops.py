"""FLOPs of one token through each unit, forward and backward, at a sequence length.

Only matrix products count, a product of m x k by k x n as 2mkn; norms, activations, rotary positions, softmax and the
lookup in the embedding do not. Backward is two products for each of forward. It knows no chip and no efficiency.

Attention is counted in one of two ways. `half` is what causal attention needs: the token at position i (from 1) meets
i tokens, on average (s + 1) / 2, and at most its window. `full` is the whole square, s tokens each, as in PaLM's
definition of MFU (arXiv 2204.02311, appendix B: 6 N + 12 L H Q T) and Megatron's formula (arXiv 2104.04473, section
3.5.2); with a window w it is min(s, w).
"""

from argosy.contracts.errors import BadInputError
from argosy.model.shape import ModelShape
from argosy.model.tensors import unit_weights

CAUSAL_WAYS = ("half", "full")
RECOMPUTE_WAYS = ("none", "selective", "full")


def tokens_attended(sequence_length: int, window: int | None = None, causal: str = "half") -> float:
    """Give how many tokens one token attends to, itself included, on average over the sequence.

    >>> tokens_attended(8)
    4.5
    >>> tokens_attended(8, window=2)
    1.875
    """
    if sequence_length < 1:
        raise BadInputError(f"sequence_length: got {sequence_length}; expected 1 or more")
    if causal not in CAUSAL_WAYS:
        raise BadInputError(f"causal: got {causal!r}; expected {' or '.join(CAUSAL_WAYS)}")
    reach = min(sequence_length, window or sequence_length)
    if causal == "full":
        return float(reach)
    # The first `reach` positions meet 1, 2, ..., reach tokens; the rest meet `reach` each.
    return reach * (sequence_length - (reach - 1) / 2) / sequence_length


def attention_flops_per_token(shape: ModelShape, unit: int, sequence_length: int, causal: str = "half") -> float:
    """Count the forward FLOPs of scores (queries x keys) and context (scores x values) for one token of a layer.

    They have no weights; 0 for the embedding, and for the head but for its modules of multi-token prediction.
    """
    if unit < 0 or (unit >= shape.num_layers and not shape.mtp_modules):
        return 0.0
    layers = 1 if unit < shape.num_layers else shape.mtp_modules
    met = tokens_attended(sequence_length, shape.window(min(unit, shape.num_layers - 1)), causal)
    return 2.0 * layers * met * shape.num_heads * (shape.head_dim + shape.value_dim)


def weight_flops_per_token(shape: ModelShape, unit: int) -> int:
    """Count the forward FLOPs of one token through a unit's weights: 2 for each number of a matrix that it meets."""
    return 2 * sum(weight.active_parameters for weight in unit_weights(shape, unit) if weight.multiplied)


def forward_flops_per_token(shape: ModelShape, unit: int, sequence_length: int, causal: str = "half") -> float:
    """Count the forward FLOPs of one token through a unit."""
    return weight_flops_per_token(shape, unit) + attention_flops_per_token(shape, unit, sequence_length, causal)


def backward_flops_per_token(
    shape: ModelShape, unit: int, sequence_length: int, recompute: str = "none", causal: str = "half"
) -> float:
    """Count the backward FLOPs of one token through a unit, what is recomputed included.

    recompute: none; selective repeats a layer's scores and context; full repeats a layer's whole forward.
    """
    if recompute not in RECOMPUTE_WAYS:
        raise BadInputError(f"recompute: got {recompute!r}; expected {', '.join(RECOMPUTE_WAYS)}")
    forward = forward_flops_per_token(shape, unit, sequence_length, causal)
    if recompute == "none" or not 0 <= unit < shape.num_layers:
        return 2 * forward
    if recompute == "full":
        return 3 * forward
    return 2 * forward + attention_flops_per_token(shape, unit, sequence_length, causal)


def train_flops_per_token(
    shape: ModelShape, sequence_length: int, recompute: str = "none", causal: str = "half"
) -> float:
    """Count the FLOPs of training on one token: forward and backward through all units.

    Without recompute it is what MFU counts; with it, HFU.
    """
    return sum(
        forward_flops_per_token(shape, unit, sequence_length, causal)
        + backward_flops_per_token(shape, unit, sequence_length, recompute, causal)
        for unit in shape.units
    )


def model_flops_utilization(
    shape: ModelShape, sequence_length: int, tokens_per_second: float, peak_tflops: float, causal: str = "half"
) -> float:
    """Give MFU: FLOPs of training without recompute over the peak of all chips together, a share of 1.

    peak_tflops: sum over chips of the dense peak of the dtype trained in.
    """
    return train_flops_per_token(shape, sequence_length, causal=causal) * tokens_per_second / (peak_tflops * 1e12)
