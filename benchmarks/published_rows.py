"""Times published training runs of dense transformers from their shapes, chips and splits.

One curve a chip kind is fitted: the part of its peak that large matrix products reach. All else is counted: bytes that
element-wise operations move, tensor-parallel exchanges, the pipeline's bubble, the gradient exchange, the optimizer.
Rows that lack a figure the model needs are left out, by name.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.contracts.errors import BadInputError

# Which rows belong to which set, by the start or a part of their source.
SETS = {
    "megatron_validated": ("2205.05198",),
    "megatron_sc21": ("Megatron-LM SC21",),
    "megatron_h100": ("Megatron-LM README images/model_table",),
    "llama3": ("Llama 3 paper",),
    "megascale_megatron": ("(Megatron-LM) (stored", "Fig 9 (Megatron-LM)"),
    "megascale": ("(MegaScale) (stored", "Fig 9 (MegaScale)"),
}
# Table 5 of arXiv 2205.05198 as calculon-ai/calculon @caa4b11 calculon/llm/validation.py repeats it: the halves of the
# eight runs that published.csv lacks, seconds of a step. (model, recompute) -> seconds.
VALIDATED_S = {
    ("megatron-22B", "selective"): 1.10,
    ("gpt3-175B", "full"): 18.13,
    ("turing-530B", "selective"): 37.83,
    ("megatron-1T", "full"): 94.42,
}


SPLIT_COLUMNS = frozenset(("tp", "pp", "dp", "interleave", "micro_batch", "global_batch", "n_chips", "seq"))
SHAPE_COLUMNS = frozenset(("layers", "hidden", "heads", "kv_heads", "ffn", "vocab"))
TOLD_COLUMNS = frozenset(("source", "model", "chip", "tokens_per_s", "step_time_s", "tflops_per_chip", "mfu", "note"))
# What a fit on all rows of the reference data's table gives: for tables with a single row of a chip.
REACHED = {"A100": 0.745, "H100": 0.765}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A chip's data sheet: dense 16-bit TFLOP/s, memory and scale-up 10^9 bytes/s each way, network 10^9 bytes/s.

    fused_tflops: what fused attention reaches, causal products counted once. FlashAttention-2 (arXiv 2307.08691): 50 to
    73 % of an A100's peak, of which the middle; 335 on an H100.
    """

    peak_tflops: float
    fused_tflops: float
    memory_gbytes_s: float
    scale_up_gbytes_s: float
    network_gbytes_s: float


BOARDS = {
    "A100": Board(peak_tflops=312, fused_tflops=192, memory_gbytes_s=2039, scale_up_gbytes_s=300, network_gbytes_s=25),
    "H100": Board(
        peak_tflops=989.4, fused_tflops=335, memory_gbytes_s=3350, scale_up_gbytes_s=450, network_gbytes_s=50
    ),
}
# Part of a wire's rate that rings reach (nccl-tests' bus bandwidth on full nodes), and of memory's that kernels do.
RING_EFFICIENCY, MEMORY_EFFICIENCY = 0.75, 0.8
# Element-wise traffic of one layer, bytes an element of the hidden state (16-bit, forward; backward moves twice as
# much): two norms, two residuals with dropout, the MLP's activation at four times the width. Counted from the layer.
NORM_BYTES, WIDE_BYTES = 28, 4
# Attention scores that are written out: scale and mask, softmax, dropout, each read and written; bytes a score.
SCORE_BYTES = 12
# Logits and their loss: written in 16 bits, cast to 32, and read and written for maximum, difference, exponent, sum and
# quotient, then backward and cast again; bytes a logit of a micro-batch, both directions.
LOGIT_BYTES = 50
# Part of an exchange that running it beside computation doesn't hide: of gradients, and inside a layer. Chosen once for
# all rows, to the nearest quarter.
EXPOSED, EXPOSED_INSIDE = 0.25, 0.75
UPDATE_BYTES = 20
NODE_CHIPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published run. recompute: none, selective or full; fused: attention scores are never written out.

    overlapped: tensor-parallel exchanges run beside the products that they belong to.
    """

    name: str
    group: str
    chip: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int
    batch: int
    chips: int
    tp: int
    pp: int
    dp: int
    chunks: int
    microbatch: int
    recompute: str
    fused: bool
    overlapped: bool
    gated: bool
    sequence_parallel: bool
    measured_s: float


def read_runs(path: Path) -> tuple[list[Run], list[str]]:
    """Read the runs of the known sets; and say which rows were left out, and why."""
    runs, skipped = [], []
    with path.open(newline="") as file:
        table = csv.DictReader(file)
        missing = sorted((SPLIT_COLUMNS | SHAPE_COLUMNS | TOLD_COLUMNS) - set(table.fieldnames or ()))
        if missing:
            raise BadInputError(f"{path}: columns {', '.join(missing)} are missing; expected those of published.csv")
        for line, row in enumerate(table, start=2):
            group = next((name for name, parts in SETS.items() if any(part in row["source"] for part in parts)), "")
            if not group:
                continue
            try:
                run = _run(row, group)
            except ValueError as error:
                raise BadInputError(f"{path}:{line}: {error}; expected numbers as in published.csv") from error
            if isinstance(run, str):
                skipped.append(f"{path.name}:{line} {row['model']}: {run}")
            else:
                runs.append(run)
    told = {(run.name, run.recompute) for run in runs}
    for run in [run for run in runs if run.group == "megatron_validated"]:
        other = "full" if run.recompute == "selective" else "selective"
        if (run.name, other) in VALIDATED_S and (run.name, other) not in told:
            runs.append(
                replace(
                    run, recompute=other, sequence_parallel=other != "full", measured_s=VALIDATED_S[run.name, other]
                )
            )
    return runs, skipped


def _run(row: dict[str, str], group: str) -> Run | str:
    chip = next((name for name in BOARDS if name in row["chip"]), "")
    needed = ("layers", "hidden", "heads", "seq", "global_batch", "n_chips", "tp", "pp", "dp")
    missing = [name for name in needed if not row[name]]
    if not chip or missing:
        return f"{', '.join(missing)} not stated" if missing else f"no data sheet for {row['chip']}"
    hidden, note = int(row["hidden"]), row["note"].lower()
    # MegaScale writes no scores out and hides its exchanges; the Megatron-LM it is held against does neither.
    new = chip == "H100" or group == "megascale"
    recompute = "full" if "full activation recompute" in note else "none" if new else "selective"
    kv_heads = int(row["kv_heads"] or row["heads"])
    gated = "Llama" in row["model"]
    run = Run(
        name=row["model"],
        group=group,
        chip=chip,
        layers=int(row["layers"]),
        hidden=hidden,
        heads=int(row["heads"]),
        kv_heads=kv_heads,
        ffn=int(row["ffn"] or 4 * hidden),
        vocab=int(row["vocab"] or 51200),
        sequence=int(row["seq"]),
        batch=int(row["global_batch"]),
        chips=int(row["n_chips"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        dp=int(row["dp"]),
        chunks=int(row["interleave"] or 1),
        microbatch=int(row["micro_batch"] or 1),
        recompute=recompute,
        fused=new,
        overlapped=group == "megascale" or "tp-comm" in note,
        gated=gated,
        sequence_parallel=recompute != "full",
        measured_s=1.0,
    )
    measured = measured_s(row, run)
    if measured is None:
        return "no time, rate or utilisation stated"
    return replace(run, measured_s=measured)


def measured_s(row: dict[str, str], run: Run) -> float | None:
    """Give a row's step time: as stated, else from its rate, else from FLOP/s as the source counts them."""
    tokens = run.batch * run.sequence
    if row["step_time_s"]:
        return float(row["step_time_s"])
    if row["tokens_per_s"]:
        return tokens / float(row["tokens_per_s"])
    tflops = float(row["tflops_per_chip"] or 0) or float(row["mfu"] or 0) * BOARDS[run.chip].peak_tflops
    if not tflops:
        return None
    again = 4 / 3 if run.recompute == "full" and "hardware flops" in row["note"].lower() else 1.0
    layer, head = layer_flops(run), 2 * run.hidden * run.vocab
    total = 3 * tokens * (run.layers * layer * again + head)
    return total / (run.chips * tflops * 1e12)


def layer_flops(run: Run) -> float:
    """Count the forward FLOPs of a layer for one token: matrix products, and attention to the whole sequence."""
    return matrix_flops(run) + 4 * run.sequence * run.hidden


def matrix_flops(run: Run) -> float:
    """Count the forward FLOPs of a layer's matrix products for one token."""
    head_dim = run.hidden // run.heads
    projections = run.hidden * (2 * run.hidden + 2 * run.kv_heads * head_dim)
    return 2 * (projections + (3 if run.gated else 2) * run.hidden * run.ffn)


def predict_s(run: Run, reached: float) -> float:
    """Time one step, when large matrix products reach this part of the peak."""
    board = BOARDS[run.chip]
    tokens = run.microbatch * run.sequence
    rate = board.peak_tflops * 1e12 * reached
    attention = 4 * run.sequence * run.hidden * tokens / run.tp
    products = matrix_flops(run) * tokens / run.tp / rate
    products += attention / 2 / (board.fused_tflops * 1e12) if run.fused else attention / rate
    memory = board.memory_gbytes_s * 1e9 * MEMORY_EFFICIENCY
    shared = run.tp if run.sequence_parallel else 1
    moved = tokens * run.hidden * NORM_BYTES / shared + tokens * run.ffn * WIDE_BYTES / run.tp
    scores = 0.0 if run.fused else tokens * run.sequence * run.heads / run.tp * SCORE_BYTES
    exchange = 0.0
    if run.tp > 1:
        ring = 2 * (run.tp - 1) / run.tp * tokens * run.hidden * 2
        exchange = 2 * ring / (board.scale_up_gbytes_s * 1e9 * RING_EFFICIENCY)
        exchange *= EXPOSED_INSIDE if run.overlapped else 1.0
    forward = products + (moved + scores) / memory + exchange
    again = {"none": 0.0, "selective": scores / memory, "full": forward}[run.recompute]
    each = 3 * forward + again
    counts = run.batch / (run.dp * run.microbatch)
    head = tokens * run.vocab / run.tp * (3 * 2 * run.hidden / rate + LOGIT_BYTES / memory)
    stage = run.layers / run.pp * each
    bubble = (run.pp - 1) / run.chunks
    pipeline = (counts + bubble) * stage + counts * (head if run.pp == 1 else 0.5 * head)
    return pipeline + _gradients_s(run, board) + _messages_s(run, board, counts)


def _gradients_s(run: Run, board: Board) -> float:
    """Time the gradients' ring and the optimizer's step; newer runs hide three quarters of the ring.

    A ring's members in one node share all ports of the node, of which there is one a chip.
    """
    head_dim = run.hidden // run.heads
    wide = (3 if run.gated else 2) * run.hidden * run.ffn
    layer = run.hidden * (2 * run.hidden + 2 * run.kv_heads * head_dim) + wide
    parameters = (run.layers * layer / run.pp + run.hidden * run.vocab) / run.tp
    rate = min(board.scale_up_gbytes_s, board.network_gbytes_s * max(1, NODE_CHIPS // run.tp))
    ring = 2 * (run.dp - 1) / run.dp * parameters * 4 / (rate * 1e9 * RING_EFFICIENCY)
    return ring * (EXPOSED if run.fused else 1.0) + parameters * UPDATE_BYTES / (
        board.memory_gbytes_s * 1e9 * MEMORY_EFFICIENCY
    )


def _messages_s(run: Run, board: Board, counts: float) -> float:
    """Time the pipeline's messages that computing doesn't hide: both ways, on a chip's own port."""
    if run.pp == 1:
        return 0.0
    size = run.microbatch * run.sequence * run.hidden * 2 / run.tp
    return 2 * counts * run.chunks * size / (board.network_gbytes_s * 1e9 * RING_EFFICIENCY) * (0.0 if run.fused else 1)


def fit(runs: Sequence[Run]) -> float:
    """Find the part of the peak with the least mean error on these runs."""
    parts = [0.30 + 0.005 * step for step in range(131)]
    return min(parts, key=lambda part: mape(runs, part))


def mape(runs: Iterable[Run], reached: float) -> float:
    """Give the mean of absolute relative errors."""
    errors = [abs(predict_s(run, reached) / run.measured_s - 1) for run in runs]
    return sum(errors) / len(errors) if errors else math.nan
