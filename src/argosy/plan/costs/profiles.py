"""Measured profiles: how long each layer of a model takes on a chip, and what it holds, as read from JSON text.

A table that nobody measured does not exist: asking for it is an error, never a zero. Two layouts are read, those of
Sailor's artifact (eth-easl/sailor, MIT): times by model, chip, micro-batch size, tensor-parallel degree and layer;
sizes by model, degree and layer. Must not know plans, networks or files.
"""

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from argosy.contracts.errors import BadInputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """Seconds of every layer, embedding first and head last, for one chip, micro-batch size and TP degree.

    update_s: the optimizer's step of the rank, as measured with that layer.
    """

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    update_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """What every layer holds on one rank of a TP group, in elements.

    stored: kept for the backward pass, for a micro-batch of one sample. output: passed on to the next layer.
    """

    parameters: tuple[int, ...]
    stored: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model's measured tables. times: by (chip, micro-batch size, TP degree); sizes: by TP degree."""

    model: str
    times: Mapping[tuple[str, int, int], LayerTimes]
    sizes: Mapping[int, LayerSizes]

    @property
    def layers(self) -> int:
        """Count the layers, embedding and head among them."""
        return len(next(iter(self.sizes.values())).parameters)

    def chips(self) -> tuple[str, ...]:
        """Name the chips that were measured."""
        return tuple(sorted({chip for chip, _, _ in self.times}))

    def degrees(self, chip: str, microbatch_size: int) -> tuple[int, ...]:
        """Give the TP degrees that are both timed and sized."""
        return tuple(sorted(t for c, b, t in self.times if c == chip and b == microbatch_size and t in self.sizes))

    def microbatch_sizes(self, chips: Iterable[str]) -> tuple[int, ...]:
        """Give the micro-batch sizes measured on any of the chips."""
        wanted = set(chips)
        return tuple(sorted({b for c, b, _ in self.times if c in wanted}))

    def timed(self, chip: str, microbatch_size: int, tp: int) -> LayerTimes:
        """Give the table of one chip, micro-batch size and TP degree; an error when it wasn't measured."""
        found = self.times.get((chip, microbatch_size, tp))
        if found is None:
            known(chip, self.chips(), f"{self.model}: chip of the profile")
            rows = ", ".join(f"{b} x TP {t}" for c, b, t in sorted(self.times) if c == chip)
            raise BadInputError(
                f"{self.model}: no times for micro-batches of {microbatch_size} at TP {tp} on {chip}; measured: {rows}"
            )
        return found

    def sized(self, tp: int) -> LayerSizes:
        """Give the sizes at a TP degree; an error when there are none."""
        if tp not in self.sizes:
            raise BadInputError(f"{self.model}: no sizes at TP {tp}; given: {', '.join(map(str, sorted(self.sizes)))}")
        return self.sizes[tp]


class _Size(msgspec.Struct, frozen=True):
    params_floats: int
    act_mem_floats: int
    act_output_floats: int


_Times = dict[str, dict[str, dict[int, dict[int, dict[int, tuple[float, float, float]]]]]]
_Sizes = dict[str, dict[int, dict[int, _Size]]]


def read_profile(times: str, times_source: str, sizes: str, sizes_source: str, model: str) -> Profile:
    """Read one model's profile from the text of a file of times and of a file of sizes.

    Both hold many models; only the asked one is checked. Holes, negative times and tables of different length are
    errors that name file, model, chip and layer.
    """
    timed = _decode(times, times_source, _Times)
    sized = _decode(sizes, sizes_source, _Sizes)
    known(model, timed, f"{times_source}: model")
    known(model, sized, f"{sizes_source}: model")
    profile = Profile(
        model=model,
        times={
            (chip, b, tp): _layer_times(layers, f"{times_source}: {model}, {chip}, micro-batch {b}, TP {tp}")
            for chip, by_size in timed[model].items()
            for b, by_degree in by_size.items()
            for tp, layers in by_degree.items()
        },
        sizes={tp: _layer_sizes(row, f"{sizes_source}: {model}, TP {tp}") for tp, row in sized[model].items()},
    )
    lengths = {len(t.forward_s) for t in profile.times.values()} | {len(s.output) for s in profile.sizes.values()}
    if len(lengths) != 1:
        raise BadInputError(
            f"{times_source}, {sizes_source}: {model} has tables of {' and '.join(map(str, sorted(lengths)))} layers; "
            "all tables of a model need the same layers"
        )
    return profile


def known(name: str, names: Iterable[str], what: str) -> None:
    """Refuse a name that isn't among those there are, with the nearest ones."""
    names = sorted(names)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise BadInputError(f"{what} {name!r} is unknown{hint} Known: {', '.join(names)}.")


def _decode(text: str, source: str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{source}: {error}") from error


def _layer_times(layers: Mapping[int, tuple[float, float, float]], place: str) -> LayerTimes:
    rows = _in_order(layers, place)
    for layer, row in enumerate(rows):
        if not all(math.isfinite(value) and value >= 0 for value in row) or row[0] + row[1] <= 0:
            raise BadInputError(
                f"{place}, layer {layer}: forward, backward and update are {row} s; "
                "allowed: finite, not negative, forward and backward not both zero"
            )
    forward, backward, update = zip(*rows, strict=True)
    return LayerTimes(forward_s=forward, backward_s=backward, update_s=update)


def _layer_sizes(layers: Mapping[int, _Size], place: str) -> LayerSizes:
    rows = _in_order(layers, place)
    for layer, row in enumerate(rows):
        if min(row.params_floats, row.act_mem_floats, row.act_output_floats) < 0:
            raise BadInputError(f"{place}, layer {layer}: sizes must not be negative, got {row}")
    return LayerSizes(
        parameters=tuple(row.params_floats for row in rows),
        stored=tuple(row.act_mem_floats for row in rows),
        output=tuple(row.act_output_floats for row in rows),
    )


def _in_order(layers: Mapping[int, T], place: str) -> list[T]:
    missing = sorted(set(range(max(layers, default=0) + 1)) - set(layers))
    if missing or min(layers) < 0:
        raise BadInputError(
            f"{place}: layers {', '.join(map(str, missing)) or 'below 0'} are missing or out of place; "
            "measure every layer from 0 on, a hole can't be planned around"
        )
    return [layers[index] for index in range(len(layers))]
