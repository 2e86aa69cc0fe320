"""Sums over layers of what a way to lay a micro-batch costs on a class, so that any span of layers is a subtraction.

Each is worked out once and kept in the setting. Must not know which spans make a stage.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from argosy.contracts.fleet import ChipClass
from argosy.plan.costs.cost import UnitCost, unit_cost
from argosy.plan.costs.memory import Holding, ends_gb, state_gb, unit_gb
from argosy.plan.costs.rings import gradient_bytes
from argosy.plan.costs.setting import NO_SHARDS, Setting, Shards, Way
from argosy.plan.pipelines.partition import Floats

Worked = TypeVar("Worked")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerSums:
    """Sums over the layers before each: ms of one micro-batch, and 10^9 bytes that one in flight keeps."""

    forward_ms: Floats
    backward_ms: Floats
    weight_ms: Floats
    kept_gb: Floats

    @property
    def total_ms(self) -> Floats:
        """Forward and backward."""
        return self.forward_ms + self.backward_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceSums:
    """LayerSums of all ways to recompute, stacked by way; forward and weights are the same in all."""

    forward_ms: Floats
    weight_ms: Floats
    backward_ms: Floats
    total_ms: Floats
    kept_gb: Floats


def worked(setting: Setting, key: object, work: Callable[[], Worked]) -> Worked:
    """Work something out once for a setting."""
    if key not in setting.tables:
        setting.tables[key] = work()
    found: Worked = setting.tables[key]
    return found


def unit_times(setting: Setting, place: ChipClass, unit: int, way: Way, shards: Shards = NO_SHARDS) -> UnitCost:
    """Time a unit once."""
    key = ("unit", place.name, unit, way, shards)
    return worked(setting, key, lambda: unit_cost(setting, place, unit, way, shards))


def layer_sums(setting: Setting, place: ChipClass, way: Way, shards: Shards = NO_SHARDS) -> LayerSums:
    """Sum what layers cost on a class."""
    return worked(setting, ("layers", place.name, way, shards), lambda: _layer_sums(setting, place, way, shards))


def place_sums(
    setting: Setting, place: ChipClass, laid: Way, recomputes: tuple[str, ...], shards: Shards = NO_SHARDS
) -> PlaceSums:
    """Stack what layers cost on a class by way to recompute."""

    def work() -> PlaceSums:
        rows = [layer_sums(setting, place, replace(laid, recompute=way), shards) for way in recomputes]
        return PlaceSums(
            forward_ms=rows[0].forward_ms,
            weight_ms=rows[0].weight_ms,
            backward_ms=np.stack([row.backward_ms for row in rows]),
            total_ms=np.stack([row.total_ms for row in rows]),
            kept_gb=np.stack([row.kept_gb for row in rows]),
        )

    return worked(setting, ("place", place.name, laid, recomputes, shards), work)


def _layer_sums(setting: Setting, place: ChipClass, way: Way, shards: Shards) -> LayerSums:
    costs = {kind: unit_times(setting, place, kind, way, shards) for kind in set(setting.kinds)}
    kept = {kind: _kept_gb(setting, place, kind, way) for kind in costs}
    return LayerSums(
        forward_ms=_sums([costs[kind].forward_ms for kind in setting.kinds]),
        backward_ms=_sums([costs[kind].backward_ms for kind in setting.kinds]),
        weight_ms=_sums([costs[kind].weight_ms for kind in setting.kinds]),
        kept_gb=_sums([kept[kind] for kind in setting.kinds]),
    )


def _kept_gb(setting: Setting, place: ChipClass, unit: int, way: Way) -> float:
    one, none = (unit_gb(setting, place, unit, Holding(way=way, held=held)) for held in (1, 0))
    return one - none


def state_sums(setting: Setting, way: Way, shards: Shards) -> Floats:
    """Sum what layers keep whatever is in flight, 10^9 bytes on one rank."""

    def work() -> Floats:
        sizes = {kind: state_gb(setting, kind, holding_of(way, 0, shards)) for kind in set(setting.kinds)}
        return _sums([sizes[kind] for kind in setting.kinds])

    return worked(setting, ("state sums", way.tp, way.ep, shards), work)


def gradient_sums(setting: Setting) -> tuple[Floats, Floats]:
    """Sum the bytes of layers' gradients: of what every EP rank has, and of experts."""

    def work() -> tuple[Floats, Floats]:
        sizes = {kind: gradient_bytes(setting, kind) for kind in set(setting.kinds)}
        return _sums([sizes[k][0] for k in setting.kinds]), _sums([sizes[k][1] for k in setting.kinds])

    return worked(setting, "gradient sums", work)


def end_gb(setting: Setting, place: ChipClass, first: bool, last: bool, holding: Holding) -> float:
    """Give what a stage holds besides its layers, once; 10^9 bytes."""
    key = ("ends", place.name, first, last, holding)
    return worked(setting, key, lambda: ends_gb(setting, place, first, last, holding))


def holding_of(way: Way, held: int, shards: Shards) -> Holding:
    """Say how a stage holds its units."""
    return Holding(
        way=way,
        held=held,
        optimizer_shards=shards.optimizer,
        gradient_shards=shards.gradient,
        weight_shards=shards.weight,
    )


def _sums(values: list[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
