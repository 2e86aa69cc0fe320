"""What each layout of some chips could do at best, before any layer is cut.

Which of them are worth cutting follows from it. Layouts are kept as columns of numbers, for there are many thousands.
Must not know how many of them a fleet would use.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.plan import GRADIENT_BYTES
from argosy.plan.costs.rings import parts_of_ring
from argosy.plan.costs.setting import NO_SHARDS, Setting, Shards, shards_of
from argosy.plan.costs.tables import end_gb, holding_of, layer_sums, state_sums, worked
from argosy.plan.pipelines.grid import Family, Freedom, Part, mixed_places, pure_places, ways
from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.passing import Floats, Integers, hop_ms, ring_ms
from argosy.plan.pipelines.places import ends_of, unit_update_ms

# An estimate that lacks no more memory than this part of it may fit all the same, for cuts are uneven.
SLACK = 0.1
# A backward takes at most this part of a pass.
BACKWARD_MAX = 0.8
# GPipe templates are made for these parts of the batch.
GPIPE_SHARES = (1.0, 0.5, 0.25)
ZERO_STAGES = 4
# So many layouts whose micro-batches wait for what is sharded are looked at closely.
SHARED_MAX = 48
PACE_HALVINGS, ROUNDING = 16, 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Layouts of a block of parts with what an estimate of them needs, as arrays by layout.

    plains: ways to lay a place of each class in an order; which: that of each layout; places: by (layout, run).
    depth, count, copies, sequences: as a layout's; copies: ranks that hold the same. ms, kept_gb: by (layout, way to
    recompute), of one micro-batch through all layers if a place had all of them, the mean of its places. state_gb,
    sharded_gb: what all layers keep on one place whatever is in flight, and by ZeRO stage the part of it that is
    sharded. room_gb: memory of the mean place less what no layer holds. update_ms: of the optimizer for all layers on
    one place, by (layout, whole or sharded); ring_ms: of their gradients' way round all holders. layer_ms: of the mean
    layer, by (layout, run); weight_ms: of all layers' weights' gradients, as ms; hop_ms: to the next place.
    head_ms: of the head on the last place, by plain.
    """

    setting: Setting
    plains: tuple[Layout, ...]
    which: Integers
    places: Integers
    depth: Floats
    count: Integers
    copies: Floats
    sequences: Floats
    ms: Floats
    kept_gb: Floats
    state_gb: Floats
    sharded_gb: Floats
    room_gb: Floats
    update_ms: Floats
    ring_ms: Floats
    layer_ms: Floats
    weight_ms: Floats
    hop_ms: Floats
    head_ms: Floats

    def __len__(self) -> int:
        """Count the layouts."""
        return len(self.which)

    def layout(self, index: int) -> Layout:
        """Give a layout, as a 1F1B pipeline."""
        plain = self.plains[int(self.which[index])]
        places = self.places[index].tolist()
        runs = tuple(replace(run, places=count) for run, count in zip(plain.runs, places, strict=True))
        return replace(plain, runs=runs, count=int(self.count[index]))

    def likely(self, family: Family, batch: int) -> tuple[Floats, Floats]:
        """Estimate the sequences a ms of all replicas, and the ms that a step takes besides.

        As if layers could be split: every place has an even part of them and recomputes what does not fit. A rate of 0
        where the states alone do not fit, or the family can't have the layout.
        """
        able, depth = self.able(family, batch), self.depth
        sharded = self.sharded_gb[:, family.zero_stage] * (1 - 1 / self.copies)
        left = self.room_gb * depth - (self.state_gb - sharded)
        flying = mean_flying(family, depth)
        over = flying * self.kept_gb[:, 0] - left
        if family.zero_stage >= 2:
            able &= left > 0
            ms, able = self.shared_ms(family, able)
        else:
            ms = self.ms
        plain = ms[:, 0]
        best = np.where(over <= 0, plain, np.inf)
        for way in range(1, ms.shape[1]):
            saved = np.maximum(1e-12, flying * (self.kept_gb[:, 0] - self.kept_gb[:, way]))
            part = np.clip(over / saved, 0.0, 1.0)
            fits = left - flying * self.kept_gb[:, way] >= -SLACK * self.room_gb * depth
            best = np.minimum(best, np.where(fits, plain + part * (ms[:, way] - plain), np.inf))
        fine = (left > 0) & np.isfinite(best) & able
        best = np.where(fine, best, plain)
        pace = np.maximum(self.pace_ms(best / self.ms[:, 0]), self.loop_ms(family, best))
        lags = best / depth * (depth - 1) / family.virtual_stages
        if family.schedule == "zero-bubble":
            lags = lags * np.maximum(0.0, 1 - 2 * self.weight_ms / best)
        lags = lags + 2 * self.hop_ms * (depth - 1) + self.update_ms[:, min(family.zero_stage, 1)] / depth
        lags = lags + self.exposed_ms(family, pace)
        return np.where(fine, self.count * self.sequences / pace, 0.0), lags

    def pace_ms(self, longer: Floats) -> Floats:
        """Give the time of the slowest place when each takes whole layers, the last of them the head besides.

        longer: by what factor layers take longer. As if all layers were alike.
        """
        layers = self.setting.shape.num_layers
        each_ms = self.layer_ms * longer[:, None]
        last_ms, head_ms = each_ms[:, -1], self.head_ms[self.which]
        low = layers / (self.places / each_ms).sum(axis=1)
        high: Floats = low + each_ms.max(axis=1) + head_ms
        for _ in range(PACE_HALVINGS):
            middle = (low + high) / 2
            layers_each = np.floor(middle[:, None] / each_ms + ROUNDING)
            beside = np.floor(np.maximum(0.0, middle - head_ms) / last_ms + ROUNDING)
            taken = (self.places * layers_each).sum(axis=1) - layers_each[:, -1] + beside
            enough = (taken >= layers) & (middle >= head_ms)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def loop_ms(self, family: Family, through_ms: Floats) -> Floats:
        """Give how often a micro-batch is let in where only so many may be on the way, there and back.

        through_ms: of one micro-batch through all layers on one place.
        """
        depth, virtual = self.depth, family.virtual_stages
        if family.schedule == "gpipe":
            return np.zeros_like(depth)
        flying = depth + (depth - 1) / virtual if virtual > 1 else depth
        return (through_ms + 2 * self.hop_ms * (depth * virtual - 1)) / flying

    def exposed_ms(self, family: Family, pace: Floats) -> Floats:
        """Estimate what of the gradients' exchange shows: what is longer than a last backward of the first stage."""
        summed, gathered = parts_of_ring(family.zero_stage)
        each = self.ring_ms / self.depth
        hidden = BACKWARD_MAX * pace / family.virtual_stages
        weights = gathered * self.setting.numerics.weight_bytes / GRADIENT_BYTES
        shown: Floats = weights * each + np.maximum(0.0, summed * each - hidden)
        return shown

    def able(self, family: Family, batch: int) -> NDArray[np.bool_]:
        """Tell which layouts a family can have: see `fronts.family_layouts`."""
        depth, virtual = self.depth, family.virtual_stages
        fine: NDArray[np.bool_] = depth > (1 if family.schedule in ("zero-bubble", "interleaved") else 0)
        if family.zero_stage >= 2:
            fine = depth == 1
        if family.schedule == "interleaved":
            fine &= (batch % (depth * self.sequences) == 0) & (depth * virtual <= self.setting.shape.num_layers)
            fine &= self.places.shape[1] == 1
        if family.schedule == "gpipe":
            fine &= np.ceil(min(GPIPE_SHARES) * batch / self.sequences / self.count) < depth
        return fine

    def shared_ms(self, family: Family, able: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
        """Give `ms` where micro-batches wait for what is sharded, of the quickest layouts, and which these are.

        All layers are on one place then.
        """
        ms, kept = self.ms.copy(), np.zeros_like(able)
        order = np.argsort(-np.where(able, self.count * self.sequences / ms[:, 0], 0.0), kind="stable")
        for index in order[: min(SHARED_MAX, int(able.sum()))]:
            plain = self.plains[int(self.which[index])]
            shards = shards_of(family.zero_stage, int(self.copies[index])).passed
            ms[index, : len(plain.recomputes)] = times_of(self.setting, plain, plain.runs[0], shards)
            kept[index] = True
        return ms, kept


def mean_flying(family: Family, depth: Floats) -> Floats:
    """Give the micro-batches in flight at the mean place, in whole ones, where there are many."""
    if family.schedule == "zero-bubble":
        return depth
    if family.schedule == "interleaved":
        return (depth * (family.virtual_stages - 1) + depth + 1) / family.virtual_stages
    return (depth + 1) / 2


class Columns(NamedTuple):
    """What `Grid` keeps of the layouts of one way to lay a place of each class, in any order of the classes."""

    places: Integers
    replicas: Integers
    ms: Floats
    kept_gb: Floats
    state_gb: Floats
    sharded_gb: Floats
    room_gb: Floats
    update_ms: Floats
    ring_ms: Floats
    layer_ms: Floats
    weight_ms: Floats
    hop_ms: Floats


def make_grid(setting: Setting, block: Sequence[Part], freedom: Freedom) -> Grid:
    """List the layouts of a block: of one class every depth, of several every order and several counts."""
    plains: list[Layout] = []
    columns: list[Columns] = []
    for plain in ways(setting, [part.chip_class for part in block], freedom):
        found = columns_of(setting, plain, block, freedom)
        if len(found.replicas):
            for order in itertools.permutations(range(len(block))):
                plains.append(replace(plain, runs=tuple(plain.runs[k] for k in order)))
                columns.append(found._replace(places=found.places[:, order], layer_ms=found.layer_ms[:, order]))
    lengths = [len(one.replicas) for one in columns]
    which = np.repeat(np.arange(len(plains)), lengths)
    wide = max((one.ms.shape[1] for one in columns), default=1)

    def stacked(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(rows) if rows else np.zeros((0, wide))

    ends = [ends_of(setting, plain) for plain in plains]
    count = stacked([one.replicas for one in columns]).astype(np.int64)
    ranks = np.array([plain.cp * plain.ep for plain in plains], dtype=float)
    sizes = np.array([plain.sequences for plain in plains], dtype=float)
    places = stacked([one.places for one in columns]).astype(np.int64)
    return Grid(
        setting=setting,
        plains=tuple(plains),
        which=which,
        places=places,
        depth=places.sum(axis=1).astype(float),
        count=count,
        copies=count * ranks[which],
        sequences=sizes[which],
        ms=stacked([widened(one.ms, wide) for one in columns]),
        kept_gb=stacked([widened(one.kept_gb, wide) for one in columns]),
        state_gb=stacked([one.state_gb for one in columns]),
        sharded_gb=stacked([one.sharded_gb for one in columns]),
        room_gb=stacked([one.room_gb for one in columns]),
        update_ms=stacked([one.update_ms for one in columns]),
        ring_ms=stacked([one.ring_ms for one in columns]),
        layer_ms=stacked([one.layer_ms for one in columns]),
        weight_ms=stacked([one.weight_ms for one in columns]),
        hop_ms=stacked([one.hop_ms for one in columns]),
        head_ms=np.array([head.forward_ms + head.backward_ms for _, head in ends]),
    )


def widened(rows: Floats, wide: int) -> Floats:
    """Repeat the last column up to a width: the last way to recompute once more."""
    return rows if rows.shape[1] == wide else np.pad(rows, ((0, 0), (0, wide - rows.shape[1])), mode="edge")


class Mean(NamedTuple):
    """What a place of a run would have if it had all layers; see Grid. update_ms: shared by all ranks, and experts."""

    ms: Floats
    kept_gb: Floats
    state_gb: float
    sharded_gb: Floats
    room_gb: float
    update_ms: tuple[float, float]
    weight_ms: float


def columns_of(setting: Setting, plain: Layout, block: Sequence[Part], freedom: Freedom) -> Columns:
    """Give the mean of the places of a way's layouts, weighted by their speed."""
    places, count = (pure_places if len(block) == 1 else mixed_places)(setting, plain, block, freedom)
    runs = [of_run(setting, plain, run) for run in plain.runs]
    depth = places.sum(axis=1)
    speeds = places / np.array([one.ms[0] for one in runs])
    weights = speeds / np.maximum(speeds.sum(axis=1, keepdims=True), 1e-300)
    shared, experts = (weights @ np.array([one.update_ms[n] for one in runs]) for n in (0, 1))
    copies = count * plain.cp * plain.ep
    rings = [ring_ms(setting, plain, run, places[:, k], count) for k, run in enumerate(plain.runs)]
    hops = [hop_ms(setting, plain, run, places[:, k]) for k, run in enumerate(plain.runs)]
    return Columns(
        places=places,
        replicas=count,
        ms=depth[:, None] / (places[:, :, None] / np.array([one.ms for one in runs])).sum(axis=1),
        kept_gb=weights @ np.array([one.kept_gb for one in runs]),
        state_gb=weights @ np.array([one.state_gb for one in runs]),
        sharded_gb=weights @ np.array([one.sharded_gb for one in runs]),
        room_gb=places @ np.array([one.room_gb for one in runs]) / depth,
        update_ms=np.stack([shared + experts, shared / copies + experts / np.maximum(1, copies // plain.ep)], axis=1),
        ring_ms=(weights * np.stack(rings, axis=1)).sum(axis=1),
        layer_ms=np.tile([one.ms[0] / setting.shape.num_layers for one in runs], (len(count), 1)),
        weight_ms=weights @ np.array([one.weight_ms for one in runs]),
        hop_ms=(weights * np.stack(hops, axis=1)).sum(axis=1),
    )


def of_run(setting: Setting, plain: Layout, run: Run) -> Mean:
    """Give what a run's places have; worked out once for a way."""

    def work() -> Mean:
        laid = [plain.way(run, recompute) for recompute in plain.recomputes]
        sums = [layer_sums(setting, run.chip_class, way) for way in laid]
        halves = [float(state_sums(setting, laid[0], shards_of(stage, 2))[-1]) for stage in range(ZERO_STAGES)]
        fixed = end_gb(setting, run.chip_class, False, False, holding_of(laid[-1], 1, NO_SHARDS))
        whole, spread = (
            sum(n * unit_update_ms(setting, plain, run, kind, shards) for kind, n in Counter(setting.kinds).items())
            for shards in (1, plain.ep)
        )
        shared = (whole - spread) / (1 - 1 / plain.ep) if plain.ep > 1 else whole
        return Mean(
            ms=times_of(setting, plain, run, NO_SHARDS),
            kept_gb=np.array([float(one.kept_gb[-1]) for one in sums]),
            state_gb=halves[0],
            sharded_gb=np.array([2 * (halves[0] - half) for half in halves]),
            room_gb=(run.chip_class.chip.memory_gb or 0.0) - fixed,
            update_ms=(shared, whole - shared),
            weight_ms=float(sums[0].weight_ms[-1]),
        )

    return worked(setting, ("run", run.chip_class.name, plain.way(run), plain.recomputes), work)


def times_of(setting: Setting, plain: Layout, run: Run, shards: Shards) -> Floats:
    """Time one micro-batch through all layers on a run's places, by way to recompute."""
    ways_ = [plain.way(run, recompute) for recompute in plain.recomputes]
    return np.array([float(layer_sums(setting, run.chip_class, way, shards).total_ms[-1]) for way in ways_])
