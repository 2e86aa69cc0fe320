"""What one chip takes for its own work on a unit, what others send it left out.

Real chips by the roofline with their family's curve, emulated ones by a simple rule. Must not know exchanges or plans.
"""

import math
from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass
from argosy.model.flops import backward_flops_per_token, forward_flops_per_token, weight_flops_per_token
from argosy.model.memory import rank_parameters
from argosy.plan.costs.curves import curve_of
from argosy.plan.costs.roofline import attention_ms, backward_ms, forward_ms, product_ms, rates_of, work_of
from argosy.plan.costs.setting import Setting, Way

# An emulated chip is as good as its modelled figures say: a round number, so that MFU reads as losses of the plan.
EMULATED_EFFICIENCY = 0.8
# An emulated chip reads weights once forward; once backward, where it also reads and writes their gradients.
FORWARD_PASSES, BACKWARD_PASSES = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Times of one rank's own work on a unit: attention_ms is the part of forward that a CP ring hides behind."""

    forward_ms: float
    backward_ms: float
    weight_ms: float
    attention_ms: float


def efficiency(chip_class: ChipClass) -> float:
    """Give the part of its peak that a class reaches in matrix products."""
    return EMULATED_EFFICIENCY if chip_class.emulated else curve_of(chip_class.chip).products


def alone(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> Alone:
    """Time a chip's own work on a unit; the chip must have a peak for the precision."""
    return (emulated_times if chip_class.emulated else times)(setting, chip_class, unit, way)


def times(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> Alone:
    """Time a real chip's own work on a unit, by the curve of its family."""
    fused = setting.program.fused_attention
    rates = rates_of(chip_class.chip, setting.precision, curve_of(chip_class.chip, setting.curves), fused=fused)
    work = work_of(setting.cut_shape(way.tp), unit, setting.numerics, setting.split(way), fused=fused)
    recompute = way.recompute if 0 <= unit < setting.shape.num_layers else "none"
    return Alone(
        forward_ms=forward_ms(work, rates),
        backward_ms=backward_ms(work, rates, recompute),
        weight_ms=product_ms(work, rates),
        attention_ms=attention_ms(work, rates),
    )


def emulated_times(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> Alone:
    """Time an emulated chip's own work: FLOPs / (peak x 0.8), or bytes / memory bandwidth where that is longer."""
    chip, shape, split = chip_class.chip, setting.cut_shape(way.tp), setting.split(way)
    flops_per_ms = chip.tflops[setting.precision] * 1e9 * EMULATED_EFFICIENCY * way.tp
    forward = split.tokens * forward_flops_per_token(shape, unit, setting.sequence_length) / flops_per_ms
    backward = (
        split.tokens * backward_flops_per_token(shape, unit, setting.sequence_length, way.recompute) / flops_per_ms
    )
    products = split.tokens * weight_flops_per_token(shape, unit) / flops_per_ms
    weights = split.tokens * shape.hidden_size if unit < 0 else rank_parameters(shape, unit, split.tp, split.ep)
    moved = weights * setting.numerics.weight_bytes / ((chip.memory_gbytes_s or math.inf) * 1e6)
    longer = max(backward, BACKWARD_PASSES * moved)
    return Alone(
        forward_ms=max(forward, FORWARD_PASSES * moved),
        backward_ms=longer,
        weight_ms=min(longer, max(products, moved)),
        attention_ms=forward - products,
    )
