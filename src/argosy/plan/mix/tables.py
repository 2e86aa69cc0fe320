"""What a mix of pipelines is planned from: classes of chips, and tables of measured times, sizes and messages.

A *carrier* is a class of chips and a tensor-parallel degree, which is what one replica of one stage runs on. Must not
know where the tables come from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Sums = Literal["one_ring", "three_phases"]
"""How gradients are summed: see `plan.mix.sync`."""


def _free(size: Any, members: Any, _one: int, _two: int) -> Floats:
    return np.zeros(np.broadcast(size, members).shape)


def _once(_stages: int) -> float:
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """What a stage's replica runs on: the index of its class of chips, and how many of them share each layer."""

    chip_class: int
    tp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A replica: one carrier a stage and the layer after each stage's last, all micro-batches of one size."""

    microbatch_size: int
    carriers: tuple[Carrier, ...]
    ends: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """Give each stage's first layer."""
        return (0, *self.ends[:-1])


@dataclass(frozen=True, kw_only=True)
class MixTable:
    """Measured tables for one micro-batch size. Arrays by (carrier, layer) unless said otherwise.

    layer_s: forward and backward. state_bytes: kept whatever the batch; stored_bytes: kept for each micro-batch in
    flight; fixed_bytes, limit_bytes: by carrier. forward_s, backward_s: by (boundary, carrier, next stage's carrier),
    the activations into and the gradients out of the layer that the boundary stands before. lean_bytes, again_s: where
    layers may be recomputed, what one keeps then instead of stored_bytes, and how much longer it takes.
    """

    microbatch_size: int
    carriers: tuple[Carrier, ...]
    layer_s: Floats
    update_s: Floats
    state_bytes: Floats
    stored_bytes: Floats
    fixed_bytes: Floats
    limit_bytes: Floats
    forward_s: Floats
    backward_s: Floats
    lean_bytes: Floats | None = None
    again_s: Floats | None = None

    @property
    def layers(self) -> int:
        """Count the layers."""
        return int(self.layer_s.shape[1])

    @cached_property
    def classes(self) -> Integers:
        """Each carrier's class of chips."""
        return np.array([carrier.chip_class for carrier in self.carriers], dtype=np.int64)

    @cached_property
    def degrees(self) -> Integers:
        """Each carrier's tensor-parallel degree."""
        return np.array([carrier.tp for carrier in self.carriers], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How pipelines run and sum; by default as Sailor's simulator has it.

    hidden: the part of all stages but the slowest that filling a pipeline doesn't show. level: each of P stages keeps P
    micro-batches, else stage s keeps P - s. filled: a replica does as many micro-batches as it has stages, at least.
    drained: the part of a stage's time that is backward; sums with one ring go on beside the last ones of the stages up
    to their own. shown: what is sent after, as a part of the sums. ratio: where given, stages on one class stand in a
    row and have one TP degree, and that of the next class is at most so many times more or less.
    """

    hidden: float = 0.0
    level: bool = False
    filled: bool = False
    drained: float = 0.0
    shown: float = 0.0
    ratio: int = 0


PLAIN = Schedule()


@dataclass(frozen=True, kw_only=True)
class MixProblem:
    """A job on a pool of chips. counts: chips by class; batch: samples of a step.

    weight_bytes: gradients of every layer, not split. reduce_s: seconds of an all-reduce of (bytes, members) between
    chips of two classes, also of arrays of them. first_factor: how often the first of so many stages waits for its
    message in a micro-batch; last_factor: the same for the last stage. shares_max: into how many shares of a layer's
    gradients tensor parallelism cuts them at most. chip_s: by class, seconds in which a chip sends a unit of
    weight_bytes; where given, a ring is as slow as its slowest holder, whose chips send at once, and reduce_s isn't
    asked. node_chips: by class, chips of a node; then those that a replica has there share its network.
    """

    counts: tuple[int, ...]
    batch: int
    weight_bytes: Floats
    tables: tuple[MixTable, ...]
    stages_max: int
    reduce_s: Callable[[Any, Any, int, int], Floats] = _free
    first_factor: Callable[[int], float] = _once
    last_factor: float = 1.0
    shares_max: int = 2**30
    schedule: Schedule = PLAIN
    chip_s: tuple[float, ...] = ()
    node_chips: tuple[int, ...] = ()

    @cached_property
    def weights_before(self) -> Floats:
        """Bytes of gradients before each layer, and of all."""
        return np.concatenate([[0.0], np.cumsum(self.weight_bytes)])

    @property
    def layers(self) -> int:
        """Count the layers."""
        return len(self.weight_bytes)

    def weight_of(self, first: int, end: int) -> float:
        """Give the bytes of the gradients of layers first to before end."""
        return float(self.weights_before[end] - self.weights_before[first])

    def shares(self, tp: int) -> int:
        """Give into how many shares a TP degree cuts the gradients that are summed."""
        return min(tp, self.shares_max)

    def table(self, microbatch_size: int) -> MixTable:
        """Give the table of a micro-batch size."""
        return next(table for table in self.tables if table.microbatch_size == microbatch_size)

    def chips(self, pipeline: Pipeline) -> Floats:
        """Count the chips of one replica, by class."""
        used = np.zeros(len(self.counts))
        for carrier in pipeline.carriers:
            used[carrier.chip_class] += carrier.tp
        return used


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a replica runs: the first micro-batch takes fill_s, the optimizer's step with it, every other slowest_s."""

    slowest_s: float
    fill_s: float

    def step_s(self, microbatches: int) -> float:
        """Give the time of so many micro-batches."""
        return self.fill_s + (microbatches - 1) * self.slowest_s


def pace(problem: MixProblem, table: MixTable, carriers: Sequence[int], ends: Sequence[int]) -> Pace:
    """Time a replica whose stages have these carriers (indices of the table's) and end before these layers."""
    count = len(carriers)
    starts = (0, *ends[:-1])
    times = []
    for stage, (carrier, first, end) in enumerate(zip(carriers, starts, ends, strict=True)):
        seconds = float(table.layer_s[carrier, first:end].sum())
        if stage < count - 1:
            factor = problem.first_factor(count) if stage == 0 else 1.0
            seconds += factor * float(table.forward_s[end, carrier, carriers[stage + 1]])
        if stage > 0:
            factor = problem.last_factor if stage == count - 1 else 1.0
            seconds += factor * float(table.backward_s[first, carriers[stage - 1], carrier])
        times.append(seconds)
    update_s = max(float(table.update_s[carrier, first]) for carrier, first in zip(carriers, starts, strict=True))
    return Pace(slowest_s=max(times), fill_s=sum(times) + update_s)
