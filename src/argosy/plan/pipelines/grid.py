"""Which layouts there are: ways to lay a micro-batch over a stage, depths, and orders of classes.

What each could do at best is known before any layer is cut. Must not know how many of them a fleet would use.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import EMBEDDING
from argosy.model.shape import ModelShape
from argosy.plan.costs.setting import Setting, Shards, Way, shards_of
from argosy.plan.costs.tables import end_gb, holding_of, layer_sums, state_sums, unit_times, worked
from argosy.plan.forms import Form as Form
from argosy.plan.forms import even_count
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.partition import Floats

DEPTHS_TRIED, DEPTH_MAX = 14, 128
COUNTS_TRIED = 6
EP_MAX, CP_MAX = 64, 8
# Context parallelism is tried where a rank would otherwise have more tokens of one sequence than this.
CP_TOKENS = 8192
TP_RATIO_MAX = 2
# An estimate that lacks no more memory than this part of it may fit all the same, for cuts are uneven.
SLACK = 0.1
# Weights' gradients are at most a third of a pass through a layer, and zero-bubble hides twice as much.
WAITING_MIN = 0.3


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
    without_tps: TP degrees of classes, by name, that are left out. form: of another framework, if plans are for one;
    batch: sequences, which its like replicas share evenly.
    """

    sizes: tuple[int, ...]
    recomputes: tuple[str, ...]
    runnable: bool = True
    without_tps: tuple[tuple[str, int], ...] = ()
    form: Form | None = None
    batch: int = 0

    def count(self, layout: Layout, most: int) -> int:
        """Give the replicas to make of a layout where chips suffice for so many; 0 where it can't be used."""
        if self.form:
            return even_count(self.batch, layout.sequences, most)
        return min(most, self.batch // layout.sequences) if self.batch else most

    def deepest(self, shape: ModelShape) -> int:
        """Give the deepest pipeline of a model."""
        return self.form.deepest(shape, DEPTH_MAX) if self.form else DEPTH_MAX

    def recompute_choices(self) -> list[tuple[str, ...]]:
        """Give what the stages of a pipeline may choose from, for each pipeline."""
        return self.form.recompute_choices(self.recomputes) if self.form else [self.recomputes]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Layouts of a block of parts with what an estimate of them needs, as arrays by layout.

    layouts: as 1F1B pipelines. ms, kept_gb: by (layout, way to recompute), of one micro-batch through all layers if a
    place had all of them, the mean of its places. state_gb, sharded_gb: what all layers keep on one place whatever is
    in flight, and by ZeRO stage the part of it that is sharded. room_gb: memory of the mean place less what
    no layer holds.
    """

    layouts: tuple[Layout, ...]
    ms: Floats
    kept_gb: Floats
    state_gb: Floats
    sharded_gb: Floats
    room_gb: Floats

    def likely(self, family: Family) -> tuple[Floats, Floats]:
        """Estimate the sequences a ms of all replicas, and the ms of a first micro-batch beyond the time to the next.

        As if layers could be split: every place has an even part of them and recomputes what does not fit. A rate of 0
        where the states alone do not fit.
        """
        depth = np.array([float(layout.depth) for layout in self.layouts])
        count = np.array([float(layout.count) for layout in self.layouts])
        copies = np.array([float(layout.count * layout.cp * layout.ep) for layout in self.layouts])
        sequences = np.array([float(layout.sequences) for layout in self.layouts])
        sharded = self.sharded_gb[:, family.zero_stage] * (1 - 1 / copies)
        left = self.room_gb * depth - (self.state_gb - sharded)
        flying = mean_flying(family, depth)
        over = flying * self.kept_gb[:, 0] - left
        plain = self.ms[:, 0]
        best = np.where(over <= 0, plain, np.inf)
        for way in range(1, self.ms.shape[1]):
            saved = np.maximum(1e-12, flying * (self.kept_gb[:, 0] - self.kept_gb[:, way]))
            part = np.clip(over / saved, 0.0, 1.0)
            fits = left - flying * self.kept_gb[:, way] >= -SLACK * self.room_gb * depth
            best = np.minimum(best, np.where(fits, plain + part * (self.ms[:, way] - plain), np.inf))
        fine = (left > 0) & np.isfinite(best)
        pace = np.where(fine, best / depth, 1.0)
        lags = pace * (depth - 1) / family.virtual_stages
        lags = lags * WAITING_MIN if family.schedule == "zero-bubble" else lags
        return np.where(fine, count * sequences / pace, 0.0), lags


def mean_flying(family: Family, depth: Floats) -> Floats:
    """Give the micro-batches in flight at the mean place, in whole ones, where there are many."""
    if family.schedule == "zero-bubble":
        return depth
    if family.schedule == "interleaved":
        return (depth * (family.virtual_stages - 1) + depth + 1) / family.virtual_stages
    return (depth + 1) / 2


def make_grid(setting: Setting, block: Sequence[Part], freedom: Freedom) -> Grid:
    """List the layouts of a block: of one class every depth, of several every order and several counts."""
    pure = len(block) == 1
    found = list(pure_layouts(setting, block[0], freedom) if pure else mixed_layouts(setting, block, freedom))
    rows = [mean_place(setting, layout) for layout in found]
    return Grid(
        layouts=tuple(found),
        ms=np.array([row[0] for row in rows]),
        kept_gb=np.array([row[1] for row in rows]),
        state_gb=np.array([row[2] for row in rows]),
        sharded_gb=np.array([row[3] for row in rows]),
        room_gb=np.array([row[4] for row in rows]),
    )


def mean_place(setting: Setting, layout: Layout) -> tuple[Floats, Floats, float, Floats, float]:
    """Give ms, kept_gb, state_gb, sharded_gb and room_gb of a layout's mean place, places weighted by their speed."""
    of_runs = [of_run(setting, layout, run) for run in layout.runs]
    if len(of_runs) == 1:
        return of_runs[0]
    counts = np.array([float(run.places) for run in layout.runs])
    speeds = np.array([1 / ms[0] for ms, *_ in of_runs]) * counts
    weights = speeds / speeds.sum()
    ms = np.array([one[0] for one in of_runs])
    return (
        layout.depth / (counts[:, None] / ms).sum(axis=0),
        weights @ np.array([one[1] for one in of_runs]),
        float(weights @ np.array([one[2] for one in of_runs])),
        weights @ np.array([one[3] for one in of_runs]),
        float(counts @ np.array([one[4] for one in of_runs])) / layout.depth,
    )


def of_run(setting: Setting, layout: Layout, run: Run) -> tuple[Floats, Floats, float, Floats, float]:
    """Give the same of one run; worked out once for a way."""

    def work() -> tuple[Floats, Floats, float, Floats, float]:
        laid = [layout.way(run, recompute) for recompute in layout.recomputes]
        sums = [layer_sums(setting, run.chip_class, way) for way in laid]
        halves = [float(state_sums(setting, laid[0], shards_of(stage, 2))[-1]) for stage in range(4)]
        fixed = end_gb(setting, run.chip_class, False, False, holding_of(laid[-1], 1, Shards()))
        return (
            np.array([float(one.total_ms[-1]) for one in sums]),
            np.array([float(one.kept_gb[-1]) for one in sums]),
            halves[0],
            np.array([2 * (halves[0] - half) for half in halves]),
            (run.chip_class.chip.memory_gb or 0.0) - fixed,
        )

    return worked(setting, ("run", run.chip_class.name, layout.way(run), layout.recomputes), work)


def pure_layouts(setting: Setting, part: Part, freedom: Freedom) -> Iterator[Layout]:
    """List pipelines of one class; count: how many of them its chips make."""
    for plain in ways(setting, [part.chip_class], freedom):
        run = plain.runs[0]
        groups = part.chips // plain.width(run)
        for depth in depths(setting.shape.num_layers):
            if depth > freedom.deepest(setting.shape):
                break
            count = freedom.count(plain, groups // depth)
            if count:
                yield replace(plain, runs=(replace(run, places=depth),), count=count)


def depths(layers: int) -> list[int]:
    """List the depths of pipelines to try: what cuts the layers evenly, powers of two, and some between."""
    most = min(layers, DEPTH_MAX)
    even = [depth for depth in range(1, most + 1) if layers % depth == 0]
    return sorted({*spread(most, DEPTHS_TRIED), *powers(most), *even})


def mixed_layouts(setting: Setting, block: Sequence[Part], freedom: Freedom) -> Iterator[Layout]:
    """List pipelines through several classes, in every order, for several counts of replicas."""
    most = min(setting.shape.num_layers, freedom.deepest(setting.shape))
    for plain in ways(setting, [part.chip_class for part in block], freedom):
        groups = [part.chips // plain.width(run) for part, run in zip(block, plain.runs, strict=True)]
        least = max(1, -(-sum(groups) // most))
        tried = [freedom.count(plain, count) for count in range_spread(least, min(groups), COUNTS_TRIED)]
        for count in dict.fromkeys(filter(None, tried)):
            runs = [replace(run, places=n // count) for run, n in zip(plain.runs, groups, strict=True)]
            if sum(run.places for run in runs) > most:
                continue
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
        return [(tp,) * len(classes) for tp in tp_degrees(setting, classes, form)]
    each = [tp_degrees(setting, [chip_class], form) for chip_class in classes]
    return [
        tps
        for tps in itertools.product(*each)
        if max(tps) <= TP_RATIO_MAX * min(tps) and all(max(tps) % tp == 0 for tp in tps)
    ]


def tp_degrees(setting: Setting, classes: Sequence[ChipClass], form: Form | None = None) -> list[int]:
    """List the TP degrees that stay in a node of every class and that the program, or the framework, can cut by."""
    most = math.gcd(*(chip_class.chips_per_node for chip_class in classes))
    pads, copies = (form.pads_vocabulary, form.copies_keys) if form else (True, True)
    return [
        tp
        for tp in range(1, most + 1)
        if most % tp == 0 and setting.can_cut(tp, pads_vocabulary=pads, copies_keys=copies)
    ]


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
