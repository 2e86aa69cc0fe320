"""What a training program keeps in memory: bytes for each parameter, and for each number that a layer makes.

`numerics("fp32")` and `numerics("bf16")` describe Argosy's own trainer, as measured on its decoder; MEGATRON describes
the mixed precision of arXiv 2205.05198, MEGATRON_CORE that of its successor. Pure constants: how many numbers there are
is in `model.memory`.
"""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from argosy.contracts.errors import BadInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """Bytes that one way of training keeps.

    For each parameter: weight_bytes, gradient_bytes; buffer_bytes for the flat buffers of the exchange; gather_bytes
    for those of the all-gather where the optimizer is sharded; optimizer_bytes for moments and master weights, and
    update_bytes for the gradients that the optimizer's step holds on top, both of which sharding divides.
    copy_bytes: for each number of a matrix, a cast copy that every micro-batch in flight keeps for its backward.
    compute_bytes: of one number in activations. norm_bytes: what a norm keeps of one number of its input, output
    included; statistic_bytes: what it keeps for each vector besides. score_bytes: what attention keeps of each score; 0
    where it is fused and keeps statistic_bytes for each query instead.
    logits_bytes: kept of each logit until backward; logits_workspace_bytes: held besides while the loss is computed.
    split_logits: the loss works on a TP rank's part of the vocabulary. dropout: one-byte masks are kept.
    fused_activation: a gated MLP keeps what goes into its activation and what comes out, nothing between.
    """

    name: str
    weight_bytes: int = 4
    gradient_bytes: int = 4
    buffer_bytes: int = 0
    gather_bytes: int = 0
    optimizer_bytes: int = 8
    update_bytes: int = 0
    copy_bytes: int = 0
    compute_bytes: int = 2
    norm_bytes: int = 4
    statistic_bytes: int = 4
    score_bytes: int = 0
    logits_bytes: int = 4
    logits_workspace_bytes: int = 0
    split_logits: bool = True
    dropout: bool = False
    fused_activation: bool = False


TRAINER = (
    # Norms keep their input, the scaled input and the output; logits live once and their log-softmax once.
    Numerics(
        name="fp32",
        buffer_bytes=4,
        gather_bytes=4,
        update_bytes=4,
        compute_bytes=4,
        norm_bytes=12,
        logits_bytes=8,
        logits_workspace_bytes=8,
        split_logits=False,
    ),
    # Norms compute in fp32 (4 + 4 bytes) and hand on bf16 (2); autocast keeps a bf16 copy of each matrix.
    Numerics(
        name="bf16",
        buffer_bytes=4,
        gather_bytes=4,
        update_bytes=4,
        copy_bytes=2,
        compute_bytes=2,
        norm_bytes=10,
        logits_bytes=6,
        logits_workspace_bytes=8,
        split_logits=False,
    ),
)

MEGATRON = Numerics(
    name="megatron",
    weight_bytes=2,
    gradient_bytes=4,
    optimizer_bytes=12,
    statistic_bytes=0,
    score_bytes=4,
    dropout=True,
)
# Attention and activation fused, no dropout; logits in 16 bits and their fp32 copy are kept, and as much again on the
# way back.
MEGATRON_CORE = replace(
    MEGATRON,
    name="megatron-core",
    score_bytes=0,
    statistic_bytes=4,
    dropout=False,
    fused_activation=True,
    logits_bytes=6,
    logits_workspace_bytes=6,
)


def numerics(precision: str) -> Numerics:
    """Find what Argosy's trainer keeps under a precision: fp32 or bf16.

    In both, parameters, gradients and AdamW's moments are fp32, so the parameters are their own master copy.
    """
    for entry in TRAINER:
        if entry.name == precision:
            return entry
    names = [entry.name for entry in TRAINER]
    near = get_close_matches(str(precision), names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise BadInputError(f"precision: got {precision!r}; expected {' or '.join(names)}{hint}")
