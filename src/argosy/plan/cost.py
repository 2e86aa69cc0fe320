"""How long a unit of the model takes on a class of chips, forward, backward and in the optimizer's step.

A roofline of the chip's family, plus the exchanges inside the stage's group. What can't be told is infinite, never
zero, and `Setting.missing` keeps the reason. Must not know pipelines or other chips.
"""

import math
from dataclasses import dataclass

from argosy.contracts.fleet import Chip, ChipClass
from argosy.contracts.plan import GRADIENT_BYTES
from argosy.model.flops import backward_flops_per_token, forward_flops_per_token, weight_flops_per_token
from argosy.model.memory import boundary_bytes, rank_parameters, rank_parameters_apart
from argosy.plan.curves import curve_of
from argosy.plan.inside import context_ms, expert_ms, gather_ms, tensor_ms
from argosy.plan.roofline import attention_ms, backward_ms, forward_ms, product_ms, rates_of, work_of
from argosy.plan.setting import Setting, Way

# An emulated chip is as good as its modelled figures say: a round number, so that MFU reads as losses of the plan.
EMULATED_EFFICIENCY = 0.8
# What the optimizer's step moves for each parameter in fp32: gradient twice (norm, update), parameter and two moments
# read and written.
UPDATE_BYTES = 32
# Memory bandwidth of a chip that states none, 10^9 bytes/s: one core of a server's CPU.
PLAIN_MEMORY_GBYTES_S = 10.0
# An emulated chip reads weights once forward; once backward, where it also reads and writes their gradients.
# Part of an exchange that shows although it runs beside the products that it belongs to, for both need the chip.
SHOWN_BESIDE = 0.75
FORWARD_PASSES, BACKWARD_PASSES = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Times of one micro-batch through one unit on a stage's chips, their exchanges included.

    weight_ms: the part of backward that makes the weights' gradients, which may be put off.
    """

    forward_ms: float
    backward_ms: float
    weight_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Times of one rank's own work on a unit: attention_ms is the part of forward that a CP ring hides behind."""

    forward_ms: float
    backward_ms: float
    weight_ms: float
    attention_ms: float


IMPOSSIBLE = UnitCost(forward_ms=math.inf, backward_ms=math.inf, weight_ms=math.inf)


def payload_bytes(setting: Setting, way: Way) -> float:
    """Give the bytes of activations that one rank passes over a boundary, one micro-batch, one direction.

    Where norms are cut along the sequence each TP rank passes on its part, else each passes all.
    """
    whole = boundary_bytes(setting.shape, setting.numerics, setting.split(way))
    return whole / way.tp if setting.program.sequence_parallel else whole


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
    return EMULATED_EFFICIENCY if chip_class.emulated else curve_of(chip_class.chip).products


def wire_efficiency(chip_class: ChipClass) -> float:
    """Give the part of its wires' rate that a class's collectives reach."""
    return 1.0 if chip_class.emulated else curve_of(chip_class.chip).wires


def unit_cost(setting: Setting, chip_class: ChipClass, unit: int, way: Way, weight_shards: int = 1) -> UnitCost:
    """Time one micro-batch through a unit; the chip must have a peak for the precision.

    weight_shards: ranks that share the unit's weights and gather them before use (ZeRO-3).
    """
    alone = (
        emulated_times(setting, chip_class, unit, way) if chip_class.emulated else times(setting, chip_class, unit, way)
    )
    found = with_exchanges(setting, chip_class, unit, way, alone, weight_shards)
    if not math.isfinite(found.forward_ms + found.backward_ms):
        setting.missing[f"{chip_class.name}: {way} takes forever: its network or its peak is 0"] = None
        return IMPOSSIBLE
    return found


def times(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> Alone:
    """Time a real chip's own work on a unit, by the curve of its family."""
    fused = setting.program.fused_attention
    rates = rates_of(chip_class.chip, setting.precision, curve_of(chip_class.chip, setting.curves), fused=fused)
    work = work_of(setting.shape, unit, setting.numerics, setting.split(way), fused=fused)
    recompute = way.recompute if 0 <= unit < setting.shape.num_layers else "none"
    return Alone(
        forward_ms=forward_ms(work, rates),
        backward_ms=backward_ms(work, rates, recompute),
        weight_ms=product_ms(work, rates),
        attention_ms=attention_ms(work, rates),
    )


def emulated_times(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> Alone:
    """Time an emulated chip's own work: FLOPs / (peak x 0.8), or bytes / memory bandwidth where that is longer."""
    chip, shape, split = chip_class.chip, setting.shape, setting.split(way)
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


def with_exchanges(
    setting: Setting, chip_class: ChipClass, unit: int, way: Way, alone: Alone, weight_shards: int
) -> UnitCost:
    """Add what the chips of a stage send one another for a unit.

    EP exchanges show, and TP's where the program does not run them beside products. Norms cut along the sequence have
    blocks' inputs gathered once more in backward, beside products. A CP ring runs beside attention, gathered weights
    beside all of a unit's arithmetic: what takes longer than that shows. Backward passes the ring twice, gathers
    weights again and scatters gradients; a recomputed layer repeats its forward's exchanges.
    """
    told = (setting.shape, setting.numerics, chip_class, unit, setting.split(way))
    reached = wire_efficiency(chip_class)
    layer = 0 <= unit < setting.shape.num_layers
    program, tensor = setting.program, tensor_ms(*told) / reached
    inline = tensor * (SHOWN_BESIDE if program.overlapped else 1.0) + expert_ms(*told) / reached
    # Half of an all-reduce for each of two blocks.
    regathered = tensor / 2 * SHOWN_BESIDE if program.sequence_parallel and layer else 0.0
    ring = context_ms(*told) / reached
    gather = gather_ms(*told, weight_shards) / reached
    again = 1 if way.recompute == "full" and layer else 0
    hidden = alone.attention_ms * (way.cp - 1) / way.cp
    shown = max(0.0, ring - hidden)
    forward = alone.forward_ms + inline + shown
    backward = alone.backward_ms + (1 + again) * inline + (2 + again) * shown + regathered
    return UnitCost(
        forward_ms=forward + max(0.0, gather - alone.forward_ms),
        backward_ms=backward + max(0.0, 2 * gather - alone.backward_ms),
        weight_ms=alone.weight_ms,
    )


def update_ms(setting: Setting, chip_class: ChipClass, units: tuple[int, ...], way: Way, shards: int) -> float:
    """Time the optimizer's step of a stage's units, sharded over so many ranks: bytes moved / memory bandwidth."""
    parameters = sum(rank_parameters(setting.shape, unit, way.tp, way.ep) for unit in units)
    bandwidth = chip_class.chip.memory_gbytes_s or PLAIN_MEMORY_GBYTES_S
    return parameters / shards * UPDATE_BYTES / (bandwidth * 1e6)


def gradient_bytes(setting: Setting, unit: int) -> tuple[float, float]:
    """Give the bytes of a unit's gradients, all ranks together: of what every EP rank has, and of experts.

    Worked out once for like layers.
    """
    like = setting.kind(unit)
    key = ("gradients", like)
    if key not in setting.tables:
        setting.tables[key] = [n * GRADIENT_BYTES for n in rank_parameters_apart(setting.shape, like)]
    everywhere, experts = setting.tables[key]
    return float(everywhere), float(experts)
