"""What a stage holds at its fullest: states, activations of the micro-batches in flight, workspace, and an allowance.

Adds up `model.memory` for a place in a pipeline; a plan that does not fit is never proposed. Must not know times.
"""

from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING
from argosy.model.memory import activation_bytes, copied_embedding_bytes, state_bytes, workspace_bytes
from argosy.plan.cost import Setting

GB = 1e9
# What the allocator wastes in gaps, a part of what is asked for; what the runtime holds on a real chip.
FRAGMENTATION = 0.04
RUNTIME_GB = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """How a stage holds its units.

    held: micro-batches in flight. shards: ranks that share the optimizer's state (ZeRO-1).
    """

    tp: int
    microbatch_size: int
    recompute: str
    held: int
    shards: int = 1


def unit_gb(setting: Setting, unit: int, holding: Holding) -> float:
    """Give what a unit keeps through a step: weights, gradients, buffers, optimizer, activations; 10^9 bytes."""
    state_key = ("state", unit, holding.tp, holding.shards)
    if state_key not in setting.tables:
        state = state_bytes(setting.shape, unit, setting.numerics, tp=holding.tp, optimizer_shards=holding.shards)
        setting.tables[state_key] = state.total
    key = ("activation", unit, holding.tp, holding.microbatch_size, holding.recompute)
    if key not in setting.tables:
        split = setting.split(holding.microbatch_size, holding.tp)
        setting.tables[key] = activation_bytes(setting.shape, unit, setting.numerics, split, holding.recompute)
    return with_gaps(setting.tables[state_key] + holding.held * setting.tables[key])


def workspace_gb(setting: Setting, unit: int, holding: Holding) -> float:
    """Give what a unit needs besides while it runs backward; 10^9 bytes."""
    key = ("workspace", unit, holding.tp, holding.microbatch_size, holding.recompute)
    if key not in setting.tables:
        split = setting.split(holding.microbatch_size, holding.tp)
        work_bytes = workspace_bytes(setting.shape, unit, setting.numerics, split, holding.recompute)
        setting.tables[key] = with_gaps(work_bytes)
    amount: float = setting.tables[key]
    return amount


def ends_gb(setting: Setting, chip_class: ChipClass, first: bool, last: bool, holding: Holding) -> float:
    """Give what a stage holds besides its layers: embedding, head, workspace, the runtime; 10^9 bytes."""
    total = 0.0 if chip_class.emulated else RUNTIME_GB
    work = max(workspace_gb(setting, layer, holding) for layer in set(setting.kinds))
    if first:
        total += unit_gb(setting, EMBEDDING, holding)
    if last:
        head = setting.shape.num_layers
        total += unit_gb(setting, head, holding)
        work = max(work, workspace_gb(setting, head, holding))
    if last and not first:
        copied = copied_embedding_bytes(setting.shape, setting.numerics, tp=holding.tp, optimizer_shards=holding.shards)
        total += with_gaps(copied.total)
    return total + work


def with_gaps(amount_bytes: float) -> float:
    """Turn bytes into 10^9 bytes, the allocator's gaps included."""
    return amount_bytes * (1 + FRAGMENTATION) / GB
