"""How long a unit of the model takes on a class of chips, forward, backward and in the optimizer's step.

As measured where there is a profile, else a roofline of the chip's family plus the exchanges inside the stage's group.
What can't be told is infinite, never zero, and `Setting.missing` keeps the reason. Must not know pipelines or other
chips.
"""

import math
from dataclasses import dataclass

from argosy.contracts.fleet import Chip, ChipClass
from argosy.model.memory import boundary_bytes, rank_parameters_apart
from argosy.plan.costs.alone import Alone, alone
from argosy.plan.costs.curves import wire_efficiency
from argosy.plan.costs.inside import context_ms, expert_ms, tensor_ms
from argosy.plan.costs.measured import Measured, profile_for
from argosy.plan.costs.setting import NO_SHARDS, Setting, Shards, Way
from argosy.plan.costs.sharding import beside

# Part of an exchange that shows although it runs beside the products that it belongs to, for both need the chip.
SHOWN_BESIDE = 0.75
# What the optimizer's step moves for each parameter in fp32: gradient twice (norm, update), parameter and two moments
# read and written.
UPDATE_BYTES = 32
# Memory bandwidth of a chip that states none, 10^9 bytes/s: one core of a server's CPU.
PLAIN_MEMORY_GBYTES_S = 10.0
# Reasons that are kept of what can't be laid out.
REASONS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """Times of one micro-batch through one unit on a stage's chips, their exchanges included.

    weight_ms: the part of backward that makes the weights' gradients, which may be put off.
    """

    forward_ms: float
    backward_ms: float
    weight_ms: float


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


def unit_cost(setting: Setting, chip_class: ChipClass, unit: int, way: Way, shards: Shards = NO_SHARDS) -> UnitCost:
    """Time one micro-batch through a unit: as measured where the chip has a profile, else by its roofline.

    shards: ranks that share gradients, and scatter them (ZeRO-2), and weights, and gather them before use (ZeRO-3). The
    chip must have a peak for the precision.
    """
    measured = profile_for(setting.measured, chip_class)
    if measured:
        found = measured_cost(setting, measured, chip_class, unit, way)
    else:
        found = with_exchanges(setting, chip_class, unit, way, alone(setting, chip_class, unit, way))
    if found is IMPOSSIBLE:
        return found
    forward_ms, backward_ms = beside(setting, chip_class, unit, way, shards, (found.forward_ms, found.backward_ms))
    found = UnitCost(forward_ms=forward_ms, backward_ms=backward_ms, weight_ms=found.weight_ms)
    if not math.isfinite(found.forward_ms + found.backward_ms):
        return impossible(setting, f"{chip_class.name}: {way} takes forever: its network or its peak is 0")
    return found


def impossible(setting: Setting, reason: str) -> UnitCost:
    """Say that a unit can't be laid out so, and keep the reason."""
    if len(setting.missing) < REASONS_MAX:
        setting.missing.setdefault(reason)
    return IMPOSSIBLE


def measured_cost(setting: Setting, measured: Measured, chip_class: ChipClass, unit: int, way: Way) -> UnitCost:
    """Give a unit's measured times, which hold the exchanges inside its stage; a hole is impossible.

    Where the weights' part of backward was not measured apart it is half of it.
    """
    asked = (chip_class.chip.name, setting.precision, setting.sequence_length, setting.layout(unit, way))
    entry = measured.entry(*asked)
    if entry is None:
        return impossible(setting, measured.hole(*asked))
    weight_ms = entry.backward_ms / 2 if entry.weight_ms is None else entry.weight_ms
    return UnitCost(forward_ms=entry.forward_ms, backward_ms=entry.backward_ms, weight_ms=weight_ms)


def with_exchanges(setting: Setting, chip_class: ChipClass, unit: int, way: Way, own: Alone) -> UnitCost:
    """Add to a chip's own work what the chips of a stage send one another for a unit.

    EP exchanges show, and TP's where the program does not run them beside products. Norms cut along the sequence have
    blocks' inputs gathered once more in backward, beside products. A CP ring runs beside attention: what takes longer
    than that shows; backward passes it twice. A recomputed layer repeats its forward's exchanges.
    """
    told = (setting.cut_shape(way.tp), setting.numerics, chip_class, unit, setting.split(way))
    reached, layer = wire_efficiency(chip_class), 0 <= unit < setting.shape.num_layers
    tensor = tensor_ms(*told) / reached
    inline = tensor * (SHOWN_BESIDE if setting.program.overlapped else 1.0) + expert_ms(*told) / reached
    # Half of an all-reduce for each of two blocks.
    regathered = tensor / 2 * SHOWN_BESIDE if setting.program.sequence_parallel and layer else 0.0
    shown = max(0.0, context_ms(*told) / reached - own.attention_ms * (way.cp - 1) / way.cp)
    again = 1 if way.recompute == "full" and layer else 0
    return UnitCost(
        forward_ms=own.forward_ms + inline + shown,
        backward_ms=own.backward_ms + (1 + again) * inline + (2 + again) * shown + regathered,
        weight_ms=own.weight_ms,
    )


def update_ms(setting: Setting, chip_class: ChipClass, units: tuple[int, ...], way: Way, shards: int) -> float:
    """Time the optimizer's step of a stage's units, sharded over so many ranks; an expert's over EP times fewer.

    As measured where the chip has a profile, by the part of a unit's parameters that a rank owns; else bytes moved /
    memory bandwidth.
    """
    shape = setting.cut_shape(way.tp)
    like = {unit: rank_parameters_apart(shape, unit, way.tp, way.ep) for unit in set(units)}
    parts = [like[unit] for unit in units]
    owned = [dense / shards + experts / max(1, shards // way.ep) for dense, experts in parts]
    measured = profile_for(setting.measured, chip_class)
    if measured:
        asked = (chip_class.chip.name, setting.precision, setting.sequence_length)
        whole_ms = [measured.update_ms(*asked, setting.layout(unit, way)) for unit in units]
        return sum(ms * own / max(1, sum(part)) for ms, own, part in zip(whole_ms, owned, parts, strict=True))
    bandwidth = chip_class.chip.memory_gbytes_s or PLAIN_MEMORY_GBYTES_S
    return sum(owned) * UPDATE_BYTES / (bandwidth * 1e6)
