"""What a stage holds at its fullest: states, activations of the micro-batches in flight, workspace, and an allowance.

Adds up `model.memory` for a place in a pipeline; a plan that does not fit is never proposed. Must not know times.
"""

from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING, GRADIENT_BYTES
from argosy.model.memory import (
    activation_bytes,
    boundary_bytes,
    copied_embedding_bytes,
    state_bytes,
    workspace_bytes,
)
from argosy.plan.costs.measured import profile_for
from argosy.plan.costs.setting import Setting, Way
from argosy.plan.costs.sharding import shared_parameters

GB = 1e9
# What the allocator wastes in gaps, a part of what is asked for; what the runtime holds on a real chip, the collective
# library's buffers among it.
FRAGMENTATION = 0.04
RUNTIME_GB = 1.0
# With ZeRO-3, units whose weights are whole at a time: the one at work and the next. With ZeRO-2 and 3, those whose
# gradients are: as they were made, and as they are sent.
GATHERED_UNITS = 2
WHOLE_GRADIENTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a stage holds its units.

    held: micro-batches in flight (`schedules.held_microbatches`). Shards: ranks that share the optimizer's state
    (ZeRO-1), gradients (2) and weights (3) of what every EP rank holds; experts have 1/ep of them.
    """

    way: Way
    held: int
    optimizer_shards: int = 1
    gradient_shards: int = 1
    weight_shards: int = 1

    @property
    def shards(self) -> tuple[int, int, int]:
        """All three."""
        return self.optimizer_shards, self.gradient_shards, self.weight_shards


def unit_gb(setting: Setting, chip_class: ChipClass, unit: int, holding: Holding) -> float:
    """Give what a unit keeps through a step on a class: its state, and activations in flight; 10^9 bytes."""
    key = ("activation", chip_class.name, unit, holding.way)
    if key not in setting.tables:
        setting.tables[key] = kept_bytes(setting, chip_class, unit, holding.way)
    return state_gb(setting, unit, holding) + with_gaps(holding.held * setting.tables[key])


def state_gb(setting: Setting, unit: int, holding: Holding) -> float:
    """Give what a unit keeps whatever is in flight: weights, gradients, buffers, optimizer; 10^9 bytes."""
    way = holding.way
    state_key = ("state", unit, way.tp, way.ep, holding.shards)
    if state_key not in setting.tables:
        setting.tables[state_key] = state_bytes(
            setting.cut_shape(way.tp),
            unit,
            setting.numerics,
            tp=way.tp,
            ep=way.ep,
            optimizer_shards=holding.optimizer_shards,
            gradient_shards=holding.gradient_shards,
            weight_shards=holding.weight_shards,
        ).total
    return with_gaps(setting.tables[state_key])


def kept_bytes(setting: Setting, chip_class: ChipClass, unit: int, way: Way) -> int:
    """Give what a micro-batch keeps for a unit from forward to backward.

    As measured where the chip has a profile that says so, else by the formulas.
    """
    measured = profile_for(setting.measured, chip_class)
    if measured:
        asked = (chip_class.chip.name, setting.precision, setting.sequence_length, setting.layout(unit, way))
        if (seen := measured.activation_bytes(*asked)) is not None:
            return seen
    return activation_bytes(setting.cut_shape(way.tp), unit, setting.numerics, setting.split(way), way.recompute)


def workspace_gb(setting: Setting, unit: int, holding: Holding) -> float:
    """Give what a unit needs besides while it runs backward; 10^9 bytes."""
    way = holding.way
    # What nobody shares is neither gathered nor sent: so experts of as many ranks as EP spreads them over.
    gradients, weights = (shared_parameters(setting, unit, way, shards) for shards in holding.shards[1:])
    key = ("workspace", unit, way, gradients, weights)
    if key not in setting.tables:
        shape, numerics = setting.cut_shape(way.tp), setting.numerics
        work_bytes = workspace_bytes(shape, unit, numerics, setting.split(way), way.recompute)
        work_bytes += WHOLE_GRADIENTS * gradients * (numerics.compute_bytes + GRADIENT_BYTES)
        work_bytes += GATHERED_UNITS * weights * numerics.compute_bytes
        setting.tables[key] = with_gaps(work_bytes)
    amount: float = setting.tables[key]
    return amount


def ends_gb(setting: Setting, chip_class: ChipClass, first: bool, last: bool, holding: Holding) -> float:
    """Give what a stage holds besides its layers: embedding, head, workspace, messages, the runtime; 10^9 bytes."""
    total = 0.0 if chip_class.emulated else RUNTIME_GB
    work = max(workspace_gb(setting, layer, holding) for layer in set(setting.kinds))
    if first:
        total += unit_gb(setting, chip_class, EMBEDDING, holding)
        work = max(work, workspace_gb(setting, EMBEDDING, holding))
    if last:
        head = setting.shape.num_layers
        total += unit_gb(setting, chip_class, head, holding)
        work = max(work, workspace_gb(setting, head, holding))
    if last and not first:
        copied = copied_embedding_bytes(
            setting.cut_shape(holding.way.tp),
            setting.numerics,
            tp=holding.way.tp,
            optimizer_shards=holding.optimizer_shards,
            gradient_shards=holding.gradient_shards,
            weight_shards=holding.weight_shards,
        )
        total += with_gaps(copied.total)
    return total + work + messages_gb(setting, first, last, holding)


def messages_gb(setting: Setting, first: bool, last: bool, holding: Holding) -> float:
    """Give what a stage's neighbours have on the way to it: a micro-batch's activations each way; 10^9 bytes."""
    one = boundary_bytes(setting.shape, setting.numerics, setting.split(holding.way))
    return with_gaps(one * ((not first) + (not last)))


def reserve_gb(memory_gb: float, *, emulated: bool) -> float:
    """Give the part of what a place is said to hold that is an allowance: for gaps and the runtime; 10^9 bytes."""
    runtime_gb = 0.0 if emulated else RUNTIME_GB
    return max(0.0, memory_gb - runtime_gb) * FRAGMENTATION / (1 + FRAGMENTATION) + runtime_gb


def with_gaps(amount_bytes: float) -> float:
    """Turn bytes into 10^9 bytes, the allocator's gaps included."""
    return amount_bytes * (1 + FRAGMENTATION) / GB
