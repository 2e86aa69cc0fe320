"""Exact parameter counts, per unit and per kind of weight.

The counts are those of the published checkpoints: tied embeddings once, DeepSeek-V3's router biases counted and its
extra module for multi-token prediction not. It only adds up `model.tensors`.
"""

from argosy.model.shape import ModelShape
from argosy.model.tensors import KINDS, Weight, unit_weights


def unit_parameters(shape: ModelShape, unit: int) -> int:
    """Count the parameters of one unit; a tied head counts its norm alone."""
    return sum(weight.parameters for weight in counted_weights(shape, unit))


def counted_weights(shape: ModelShape, unit: int) -> list[Weight]:
    """List the weights of a unit that published counts hold."""
    return [weight for weight in unit_weights(shape, unit) if not weight.extra]


def unit_parameters_by_kind(shape: ModelShape, unit: int) -> dict[str, int]:
    """Count the parameters of one unit for each of KINDS that it has."""
    counts: dict[str, int] = {}
    for weight in counted_weights(shape, unit):
        if weight.copies:
            counts[weight.kind] = counts.get(weight.kind, 0) + weight.parameters
    return counts


def total_parameters(shape: ModelShape) -> int:
    """Count all parameters of the model."""
    return sum(unit_parameters(shape, unit) for unit in shape.units)


def parameters_by_kind(shape: ModelShape) -> dict[str, int]:
    """Count all parameters for each of KINDS that the model has, in the order of KINDS."""
    counts = [unit_parameters_by_kind(shape, unit) for unit in shape.units]
    totals = {kind: sum(count.get(kind, 0) for count in counts) for kind in KINDS}
    return {kind: total for kind, total in totals.items() if total}


def active_parameters(shape: ModelShape) -> int:
    """Count the parameters that work on one token: all of a dense model, the chosen experts of a mixture.

    The embedding counts whole, as the publishers of mixtures count it.
    """
    idle = sum(
        weight.parameters - weight.active_parameters
        for unit in shape.units
        for weight in counted_weights(shape, unit)
        if weight.kind == "experts"
    )
    return total_parameters(shape) - idle
