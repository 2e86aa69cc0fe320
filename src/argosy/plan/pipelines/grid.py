"""Which layouts there are: ways to lay a micro-batch over a stage, depths, and orders of classes.

Must not know what they cost, nor how many of them a fleet would use.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING
from argosy.model.shape import ModelShape
from argosy.plan.costs.setting import Setting, Way
from argosy.plan.costs.tables import unit_times, worked
from argosy.plan.forms import Form, even_count
from argosy.plan.pipelines.layouts import Layout, Run

Integers = NDArray[np.int64]

DEPTHS_TRIED, DEPTH_MAX = 14, 128
COUNTS_TRIED = 6
EP_MAX, CP_MAX = 64, 8
# Context parallelism is tried where a rank would otherwise have more tokens of one sequence than this.
CP_TOKENS = 8192
TP_RATIO_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """So many chips of a class that a draft may use."""

    chip_class: ChipClass
    chips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What all replicas of a plan share: schedule, virtual stages, ZeRO stage."""

    schedule: str = "1f1b"
    virtual_stages: int = 1
    zero_stage: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Freedom:
    """What a job leaves open. sizes: of micro-batches; recomputes: ways, what keeps most first.

    runnable: only what Argosy's own trainer runs: one TP degree a pipeline, no CP, no EP, whole stages recomputed.
    without_tps: TP degrees of classes, by name, that are left out. form: of another framework, if plans are for one.
    batch: sequences, which its like replicas share evenly. lockstep: replicas of one stage, all alike, share it evenly.
    """

    sizes: tuple[int, ...]
    recomputes: tuple[str, ...]
    runnable: bool = True
    without_tps: tuple[tuple[str, int], ...] = ()
    form: Form | None = None
    batch: int = 0
    lockstep: bool = False

    def count(self, layout: Layout, most: int) -> int:
        """Give the replicas to make of a layout where chips suffice for so many; 0 where it can't be used."""
        if self.form or self.lockstep:
            return even_count(self.batch, layout.sequences, most)
        return min(most, self.batch // layout.sequences) if self.batch else most

    def deepest(self, shape: ModelShape) -> int:
        """Give the deepest pipeline of a model."""
        if self.lockstep:
            return 1
        return self.form.deepest(shape, DEPTH_MAX) if self.form else DEPTH_MAX

    def recompute_choices(self) -> list[tuple[str, ...]]:
        """Give what the stages of a pipeline may choose from, for each pipeline."""
        return self.form.recompute_choices(self.recomputes) if self.form else [self.recomputes]


def pure_layouts(setting: Setting, part: Part, freedom: Freedom) -> Iterator[Layout]:
    """List pipelines of one class; count: how many of them its chips make."""
    for plain in ways(setting, [part.chip_class], freedom):
        for (depth,), count in zip(
            *(rows.tolist() for rows in pure_places(setting, plain, [part], freedom)), strict=True
        ):
            yield replace(plain, runs=(replace(plain.runs[0], places=depth),), count=count)


def pure_places(setting: Setting, plain: Layout, block: Sequence[Part], freedom: Freedom) -> tuple[Integers, Integers]:
    """List the pipelines of a way to lay a place of one class: places by (pipeline, run), and how many chips make."""
    groups = block[0].chips // plain.width(plain.runs[0])
    deepest = freedom.deepest(setting.shape)
    found = [(depth, freedom.count(plain, groups // depth)) for depth in depths(setting.shape.num_layers)]
    rows = np.array([pair for pair in found if pair[0] <= deepest and pair[1]], dtype=np.int64).reshape(-1, 2)
    return rows[:, :1], rows[:, 1]


@lru_cache(maxsize=64)
def depths(layers: int) -> list[int]:
    """List the depths of pipelines to try: what cuts the layers evenly, powers of two, and some between."""
    most = min(layers, DEPTH_MAX)
    even = [depth for depth in range(1, most + 1) if layers % depth == 0]
    return sorted({*spread(most, DEPTHS_TRIED), *powers(most), *even})


def mixed_places(setting: Setting, plain: Layout, block: Sequence[Part], freedom: Freedom) -> tuple[Integers, Integers]:
    """List the same for pipelines through several classes, for several counts of replicas."""
    most = min(setting.shape.num_layers, freedom.deepest(setting.shape))
    groups = [part.chips // plain.width(run) for part, run in zip(block, plain.runs, strict=True)]
    least = max(1, -(-sum(groups) // most))
    found = range_spread(least, min(groups), COUNTS_TRIED)
    tried = [freedom.count(plain, count) for count in found]
    # What frameworks try that share a batch evenly is tried for all.
    tried += [even_count(freedom.batch, plain.sequences, count) for count in found]
    rows = [(*(n // count for n in groups), count) for count in dict.fromkeys(filter(None, tried))]
    kept = np.array([row for row in rows if sum(row[:-1]) <= most], dtype=np.int64).reshape(-1, len(block) + 1)
    return kept[:, :-1], kept[:, -1]


def mixed_layouts(setting: Setting, block: Sequence[Part], freedom: Freedom) -> Iterator[Layout]:
    """List pipelines through several classes, in every order."""
    for plain in ways(setting, [part.chip_class for part in block], freedom):
        rows, counts = (found.tolist() for found in mixed_places(setting, plain, block, freedom))
        for places, count in zip(rows, counts, strict=True):
            runs = [replace(run, places=n) for run, n in zip(plain.runs, places, strict=True)]
            for order in itertools.permutations(runs):
                yield replace(plain, runs=order, count=count)


def ways(setting: Setting, classes: Sequence[ChipClass], freedom: Freedom) -> Iterator[Layout]:
    """List ways to lay a micro-batch over one place of each class, as layouts of one replica.

    TP stays in a node; TP x CP x EP divides a node evenly or fills whole ones. CP, EP and the micro-batch are the same
    on all classes.
    """
    shape = setting.shape
    form = freedom.form
    cps = [1] if freedom.runnable or (form and not form.cp) else cp_degrees(setting.sequence_length)
    for tps in tp_choices(setting, classes, freedom):
        if any((c.name, tp) in freedom.without_tps for c, tp in zip(classes, tps, strict=True)):
            continue
        whole_experts = form is not None and not form.ep_in_tp and max(tps) > 1
        eps = ep_degrees(shape, freedom.runnable or whole_experts)
        for cp, ep, size, recomputes in itertools.product(cps, eps, freedom.sizes, freedom.recompute_choices()):
            runs = tuple(Run(chip_class=c, places=1, tp=tp) for c, tp in zip(classes, tps, strict=True))
            plain = Layout(
                runs=runs,
                cp=cp,
                ep=ep,
                microbatch_size=size,
                recomputes=recomputes,
                partly=form.by_stage if form else not freedom.runnable,
            )
            if all(fills(plain.width(run), run.chip_class.chips_per_node) for run in runs):
                known = known_recomputes(setting, plain)
                if known:
                    yield replace(plain, recomputes=known)


def known_recomputes(setting: Setting, layout: Layout) -> tuple[str, ...]:
    """Keep the ways to recompute that have a time for every unit on all classes."""
    return tuple(
        recompute
        for recompute in layout.recomputes
        if all(known_way(setting, run.chip_class, layout.way(run, recompute)) for run in layout.runs)
    )


def known_way(setting: Setting, chip_class: ChipClass, way: Way) -> bool:
    """Tell whether every unit has a time on a class."""

    def work() -> bool:
        units = (EMBEDDING, *set(setting.kinds), setting.shape.num_layers)
        costs = [unit_times(setting, chip_class, unit, way) for unit in units]
        return all(math.isfinite(cost.forward_ms + cost.backward_ms) for cost in costs)

    return worked(setting, ("known", chip_class.name, way), work)


def fills(width: int, node_chips: int) -> bool:
    """Tell whether a place of so many chips divides a node evenly or fills whole ones."""
    return node_chips % width == 0 or width % node_chips == 0


def tp_choices(setting: Setting, classes: Sequence[ChipClass], freedom: Freedom) -> list[tuple[int, ...]]:
    """List the TP degrees of each class of a pipeline: the same on all, or near ones where they may differ."""
    form = freedom.form
    if freedom.runnable or (form is not None and not form.unlike_tps(setting.shape)) or len(classes) != 2:
        return [(tp,) * len(classes) for tp in tp_degrees(setting, classes)]
    each = [tp_degrees(setting, [chip_class]) for chip_class in classes]
    return [
        tps
        for tps in itertools.product(*each)
        if max(tps) <= TP_RATIO_MAX * min(tps) and all(max(tps) % tp == 0 for tp in tps)
    ]


def tp_degrees(setting: Setting, classes: Sequence[ChipClass]) -> list[int]:
    """List the TP degrees that stay in a node of every class and that the program can cut by."""
    most = math.gcd(*(chip_class.chips_per_node for chip_class in classes))
    return [tp for tp in range(1, most + 1) if most % tp == 0 and setting.can_cut(tp)]


def ep_degrees(shape: ModelShape, runnable: bool) -> list[int]:
    """List the EP degrees that spread experts evenly."""
    if shape.experts is None or runnable:
        return [1]
    return [ep for ep in powers(EP_MAX) if shape.experts.count % ep == 0]


def cp_degrees(sequence_length: int) -> list[int]:
    """List the CP degrees worth trying for a sequence length."""
    return [cp for cp in powers(CP_MAX) if cp == 1 or (sequence_length >= cp * CP_TOKENS and sequence_length % cp == 0)]


def powers(maximum: int) -> list[int]:
    """List the powers of two up to a maximum."""
    return [1 << bit for bit in range(maximum.bit_length())]


def spread(maximum: int, count: int) -> list[int]:
    """Choose at most about `count` numbers from 1 to a maximum: all of few, else close together at first, then wide.

    >>> spread(5, 14), spread(64, 6)
    ([1, 2, 3, 4, 5], [1, 2, 5, 12, 28, 64])
    """
    return range_spread(1, maximum, count)


def range_spread(minimum: int, maximum: int, count: int) -> list[int]:
    """Choose at most about `count` numbers from a minimum to a maximum, equally far apart as ratios."""
    if maximum - minimum < count:
        return list(range(minimum, maximum + 1))
    ratio = maximum / minimum
    return sorted({round(minimum * ratio ** (index / (count - 1))) for index in range(count)})
