"""How long a unit of the model takes on a class of chips, forward, backward and in the optimizer's step.

A roofline: matrix FLOPs at a stated part of the chip's peak, never faster than its memory feeds the weights, plus the
exchanges inside the tensor-parallel group. A missing figure is infeasible, never zero. Must not know pipelines or other
chips.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from argosy.contracts.fleet import Chip, ChipClass
from argosy.model.flops import backward_flops_per_token, forward_flops_per_token, train_flops_per_token
from argosy.model.memory import Split, boundary_bytes, rank_parameters
from argosy.model.numerics import Numerics, numerics
from argosy.model.shape import ModelShape
from argosy.plan.links import all_reduce_ms

# Part of the dense peak that a layer's matrix products reach, everything around them included. Published training runs:
# A100 44-57 % (arXiv 2104.04473 table 1, 2205.05198 table 5), H100 41-48 % (Megatron Core's README, Llama 3's table 4),
# pipeline bubble and exchanges within. Profiles will replace these constants.
EFFICIENCY = 0.5
# An emulated chip is as good as its modelled figures say: a round number, so that MFU reads as losses of the plan.
EMULATED_EFFICIENCY = 0.8
# What the optimizer's step moves for each parameter in fp32: gradient twice (norm, update), parameter and two moments
# read and written.
UPDATE_BYTES = 32
# Memory bandwidth of a chip that states none, 10^9 bytes/s: one core of a server's CPU.
PLAIN_MEMORY_GBYTES_S = 10.0
# Weights are read once forward; read once, and their gradients read and written, backward.
FORWARD_PASSES, BACKWARD_PASSES = 1, 3


@dataclass(frozen=True)
class Setting:
    """What a job asks of every plan alike: the model, the sequence length in tokens, and the precision.

    tables: what was worked out before for a class (by name), so that a setting belongs to one fleet.
    """

    shape: ModelShape
    sequence_length: int
    precision: str
    tables: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def numerics(self) -> Numerics:
        """Bytes that the precision keeps."""
        return numerics(self.precision)

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Name for each layer the first layer that costs the same."""
        first: dict[object, int] = {}
        shape = self.shape
        return tuple(first.setdefault((shape.has_experts(i), shape.window(i)), i) for i in range(shape.num_layers))

    def kind(self, unit: int) -> int:
        """Name the unit that stands for all that cost the same; embedding and head are their own."""
        return self.kinds[unit] if 0 <= unit < self.shape.num_layers else unit

    @cached_property
    def flops_per_token(self) -> float:
        """FLOPs of training on one token, forward and backward, no recompute."""
        return train_flops_per_token(self.shape, self.sequence_length)

    def split(self, microbatch_size: int, tp: int) -> Split:
        """Say how one micro-batch is laid over a TP group."""
        return Split(microbatch_size=microbatch_size, sequence_length=self.sequence_length, tp=tp)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Times of one micro-batch through one unit on a TP group, its exchanges included."""

    forward_ms: float
    backward_ms: float


def payload_bytes(setting: Setting, microbatch_size: int, tp: int) -> int:
    """Give the bytes of activations that pass a boundary, one micro-batch, one direction."""
    return boundary_bytes(setting.shape, setting.numerics, setting.split(microbatch_size, tp))


def peak_tflops(chip: Chip, precision: str) -> float | None:
    """Give a chip's dense peak for a precision; None where the catalogue has no figure."""
    return chip.tflops.get(precision)


def missing_peak(chip: Chip, precision: str) -> str:
    """Say that a chip can't be planned for, and what it could train in."""
    others = ", ".join(dtype for dtype in ("bf16", "fp32") if dtype in chip.tflops)
    hint = f"`--set train.precision={others}` would do" if others else "add the figure to a catalogue file"
    return f"{chip.name} has no {precision} peak in the catalogue; {hint}"


def efficiency(chip_class: ChipClass) -> float:
    """Give the part of its peak that a class reaches in matrix products."""
    return EMULATED_EFFICIENCY if chip_class.emulated else EFFICIENCY


def unit_cost(
    setting: Setting, chip_class: ChipClass, unit: int, *, tp: int, microbatch_size: int, recompute: str
) -> UnitCost:
    """Time one micro-batch through a unit on tp chips; the chip must have a peak for the precision.

    Each direction takes the longer of FLOPs / (peak x efficiency) and bytes / memory bandwidth, plus exchanges.
    """
    chip = chip_class.chip
    split = setting.split(microbatch_size, tp)
    forward = forward_flops_per_token(setting.shape, unit, setting.sequence_length)
    backward = backward_flops_per_token(setting.shape, unit, setting.sequence_length, recompute)
    flops_per_ms = chip.tflops[setting.precision] * 1e9 * efficiency(chip_class) * tp
    moved_ms = _moved_bytes(setting, unit, split) / ((chip.memory_gbytes_s or float("inf")) * 1e6)
    once_ms = exchange_ms(setting, chip_class, unit, split)
    again = 1 if recompute == "full" and 0 <= unit < setting.shape.num_layers else 0
    return UnitCost(
        forward_ms=max(split.tokens * forward / flops_per_ms, FORWARD_PASSES * moved_ms) + once_ms,
        backward_ms=max(split.tokens * backward / flops_per_ms, BACKWARD_PASSES * moved_ms) + (1 + again) * once_ms,
    )


def _moved_bytes(setting: Setting, unit: int, split: Split) -> float:
    """Give what one pass moves at least: the rank's weights, or the rows that the embedding looks up."""
    if unit < 0:
        return split.tokens * setting.shape.hidden_size * setting.numerics.weight_bytes
    return rank_parameters(setting.shape, unit, split.tp) * setting.numerics.weight_bytes


def exchange_ms(setting: Setting, chip_class: ChipClass, unit: int, split: Split) -> float:
    """Time the exchanges of a TP group in one direction of a unit.

    A layer all-reduces its activations twice (arXiv 1909.08053), embedding and head once; the head also gathers its
    logits where the loss is not split.
    """
    if split.tp == 1:
        return 0.0
    activation_bytes = boundary_bytes(setting.shape, setting.numerics, split)
    if 0 <= unit < setting.shape.num_layers:
        return 2 * all_reduce_ms(chip_class, split.tp, activation_bytes)
    once_ms = all_reduce_ms(chip_class, split.tp, activation_bytes)
    if unit < 0 or setting.numerics.split_logits:
        return once_ms
    logits_bytes = split.tokens * setting.shape.vocab_size * setting.numerics.compute_bytes
    # Gathering is half of an all-reduce, and only forward pays it: half of that in each direction.
    return once_ms + all_reduce_ms(chip_class, split.tp, logits_bytes) / 4


def update_ms(setting: Setting, chip_class: ChipClass, units: tuple[int, ...], tp: int, shards: int) -> float:
    """Time the optimizer's step of a stage's units, sharded over so many ranks: bytes moved / memory bandwidth."""
    parameters = sum(rank_parameters(setting.shape, unit, tp) for unit in units)
    bandwidth = chip_class.chip.memory_gbytes_s or PLAIN_MEMORY_GBYTES_S
    return parameters / shards * UPDATE_BYTES / (bandwidth * 1e6)
