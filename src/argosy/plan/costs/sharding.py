"""What ranks that share gradients or weights send one another for a unit in every micro-batch (ZeRO-2 and 3).

As FSDP2 does (torch.distributed.fsdp.fully_shard): weights are gathered for forward and again for backward, gradients
scattered in backward, each beside the work on a neighbouring unit. What was gathered is copied to where the unit reads
it, gradients to where they are sent from, in 32 bits. What is sent once a step is the exchanges' business. Must not
know pipelines.
"""

import math
from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING, GRADIENT_BYTES
from argosy.model.memory import rank_parameters_apart
from argosy.plan.costs.curves import curve_of, wire_efficiency
from argosy.plan.costs.inside import passed_ms
from argosy.plan.costs.setting import NO_SHARDS, Setting, Shards, Way

# Part of a collective's time by which work beside it ends later: computing then takes 18.9 % longer on A100 and H100,
# the mean of arXiv 2507.03114.
SLOWED_BESIDE = 1 - 1 / 1.189


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Bytes that a rank sends for a unit in one micro-batch: of what every EP rank has, and of its own experts."""

    gathered: tuple[float, float] = (0.0, 0.0)
    scattered: tuple[float, float] = (0.0, 0.0)


def shared_bytes(setting: Setting, unit: int, way: Way, shards: Shards) -> Shared:
    """Count what one gather of a unit's weights and one scatter of its gradients send: (n-1)/n of them in a ring.

    Weights go as they compute, gradients in 32 bits. Experts are shared by EP times fewer ranks.
    """
    numbers = rank_parameters_apart(setting.cut_shape(way.tp), unit, way.tp, way.ep)
    return Shared(
        gathered=_of_ring(numbers, shards.weight, way.ep, setting.numerics.compute_bytes),
        scattered=_of_ring(numbers, shards.gradient, way.ep, GRADIENT_BYTES),
    )


def shared_ms(setting: Setting, chip_class: ChipClass, unit: int, way: Way, shards: Shards) -> tuple[float, float]:
    """Time one gather of a unit's weights and one scatter of its gradients, on idle wires."""
    sent = shared_bytes(setting, unit, way, shards)
    return (
        _ms(chip_class, way, shards.weight, sent.gathered),
        _ms(chip_class, way, shards.gradient, sent.scattered),
    )


def beside(
    setting: Setting, chip_class: ChipClass, unit: int, way: Way, shards: Shards, work: tuple[float, float]
) -> tuple[float, float]:
    """Give forward and backward of a unit with what its ranks share; work: both alone, ms.

    What is sent shows as far as it takes longer than the work beside it, which it slows down and adds copies to.
    Nothing is beside a micro-batch's first gather, that of the embedding, nor beside its last scatter.
    """
    if shards == NO_SHARDS:
        return work
    gather, scatter = shared_ms(setting, chip_class, unit, way, shards)
    forward, backward = work
    if unit == EMBEDDING:
        return forward + gather, max(backward, gather) + scatter
    gathering, scattering = _hindered_ms(setting, chip_class, unit, way, shards)
    return max(forward + gathering, gather), max(backward + gathering + scattering, gather + scatter)


def _hindered_ms(setting: Setting, chip_class: ChipClass, unit: int, way: Way, shards: Shards) -> tuple[float, float]:
    """Time what a gather and a scatter take from the work beside them; an emulated chip does both at once."""
    if chip_class.emulated:
        return 0.0, 0.0
    made_bytes, chip = setting.numerics.compute_bytes, chip_class.chip
    memory = (chip.memory_gbytes_s or math.inf) * 1e6 * curve_of(chip, setting.curves).memory
    sent_ms = shared_ms(setting, chip_class, unit, way, shards)
    copied = (
        shared_parameters(setting, unit, way, shards.weight) * 2 * made_bytes,
        shared_parameters(setting, unit, way, shards.gradient) * (made_bytes + GRADIENT_BYTES),
    )
    gather, scatter = (ms * SLOWED_BESIDE + each / memory for ms, each in zip(sent_ms, copied, strict=True))
    return gather, scatter


def shared_parameters(setting: Setting, unit: int, way: Way, shards: int) -> int:
    """Count the parameters of a unit on a rank that other ranks hold a part of, of so many that share.

    Those of experts are among them only where there are more ranks than EP spreads experts over.
    """
    if shards == 1:
        return 0
    dense, experts = rank_parameters_apart(setting.cut_shape(way.tp), unit, way.tp, way.ep)
    return dense + experts * (shards // way.ep > 1)


def _of_ring(numbers: tuple[int, int], shards: int, ep: int, each_bytes: int) -> tuple[float, float]:
    dense, experts = numbers
    few = max(1, shards // ep)
    return dense * each_bytes * (shards - 1) / shards, experts * each_bytes * (few - 1) / few


def _ms(chip_class: ChipClass, way: Way, shards: int, sent_bytes: tuple[float, float]) -> float:
    dense = passed_ms(chip_class, way.tp, shards, sent_bytes[0])
    experts = passed_ms(chip_class, way.tp * way.ep, max(1, shards // way.ep), sent_bytes[1])
    return (dense + experts) / wire_efficiency(chip_class)
