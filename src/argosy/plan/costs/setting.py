"""What a job asks of every plan alike, and the ways to lay one micro-batch over the chips of a stage.

Data, and what was worked out from it once; it must not know chips, times or plans.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from argosy.model.describe import describe_unit
from argosy.model.flops import train_flops_per_token
from argosy.model.memory import Split
from argosy.model.numerics import Numerics, numerics
from argosy.model.shape import ModelShape
from argosy.plan.costs.curves import CURVES, Curve
from argosy.plan.costs.measured import Layout, Measured
from argosy.plan.costs.program import TRAINER, Program


@dataclass(frozen=True)
class Setting:
    """What a job asks of every plan alike: the model, the sequence length in tokens, and the precision.

    program: what trains. curves: how near real chips come to their data sheets. measured: profiles, which go before
    curves. tables: what was worked out before for a class (by name), so that a setting belongs to one fleet. missing:
    why entries of the cost tables are infinite, in the order they were met.
    """

    shape: ModelShape
    sequence_length: int
    precision: str
    tables: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    program: Program = TRAINER
    curves: tuple[Curve, ...] = CURVES
    measured: Measured | None = field(default=None, repr=False)
    missing: dict[str, None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def numerics(self) -> Numerics:
        """Bytes that the program keeps in the precision."""
        return self.program.numerics or numerics(self.precision)

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Name for each layer the first layer that costs the same."""
        first: dict[object, int] = {}
        shape = self.shape
        return tuple(first.setdefault((shape.has_experts(i), shape.window(i)), i) for i in range(shape.num_layers))

    def kind(self, unit: int) -> int:
        """Name the unit that stands for all that cost the same; embedding and head are their own."""
        return self.kinds[unit] if 0 <= unit < self.shape.num_layers else unit

    @cached_property
    def flops_per_token(self) -> float:
        """FLOPs of training on one token, forward and backward, no recompute."""
        return train_flops_per_token(self.shape, self.sequence_length)

    def cut_shape(self, tp: int) -> ModelShape:
        """Give the model as a TP degree cuts it: with its vocabulary padded, where the program pads."""
        key = ("shape", tp)
        if key not in self.tables:
            self.tables[key] = self.program.cut(self.shape, tp)
        shape: ModelShape = self.tables[key]
        return shape

    def can_cut(self, tp: int) -> bool:
        """Whether the program cuts model and sequences by a TP degree."""
        if self.program.sequence_parallel and self.sequence_length % tp:
            return False
        return self.program.can_cut(self.shape, tp)

    def layout(self, unit: int, way: "Way") -> Layout:
        """Name a unit laid out one way as profiles do; only layers are recomputed."""
        recompute = way.recompute if 0 <= unit < self.shape.num_layers else "none"
        return describe_unit(self.shape, unit), way.tp, way.cp, way.ep, way.microbatch_size, recompute

    def split(self, way: "Way") -> Split:
        """Say how one micro-batch is laid over a stage's chips."""
        return Split(
            microbatch_size=way.microbatch_size,
            sequence_length=self.sequence_length,
            tp=way.tp,
            cp=way.cp,
            ep=way.ep,
            sequence_parallel=self.program.sequence_parallel,
        )


@dataclass(frozen=True, slots=True)
class Shards:
    """Over how many ranks optimizer, gradients and weights are cut."""

    optimizer: int = 1
    gradient: int = 1
    weight: int = 1

    @property
    def passed(self) -> "Shards":
        """What of it is sent in every micro-batch; the optimizer's share is not."""
        return Shards(gradient=self.gradient, weight=self.weight)


NO_SHARDS = Shards()


def shards_of(zero_stage: int, ranks: int) -> Shards:
    """Say what a ZeRO stage cuts over so many ranks."""
    return Shards(*(ranks if zero_stage >= stage else 1 for stage in (1, 2, 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one micro-batch is laid over a stage's chips; each of the ep ranks takes a micro-batch of its own.

    recompute: none, selective or full.
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    microbatch_size: int = 1
    recompute: str = "none"

    @property
    def width(self) -> int:
        """How many chips it takes."""
        return self.tp * self.cp * self.ep
