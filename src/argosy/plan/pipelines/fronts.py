"""The templates of a block of chips that are worth having: whatever time a step takes, one of them does most in it.

Cuts layers only for layouts that could be among them. Must not know other blocks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.fleet import LongLink
from argosy.plan.costs.setting import Setting
from argosy.plan.costs.tables import worked
from argosy.plan.pipelines.grid import Family, Freedom, Part
from argosy.plan.pipelines.layouts import Layout
from argosy.plan.pipelines.likely import GPIPE_SHARES, Grid, make_grid
from argosy.plan.pipelines.paced import Paced, choose

# Times of a step that a front is good for: from what the block would take alone down to so small a part of it.
TIMES, SHORTEST = 20, 1 / 64
# How much more than estimated a layout may do, and how many are tried at most.
UNSURE, TRIED_MAX, IDLE_MAX = 1.0, 80, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Likely:
    """What replicas of some layout might do, before a layer is cut. rate, lag_ms: as of a choice."""

    rate: float
    lag_ms: float

    def done(self, time_ms: float) -> float:
        """Give the sequences done in a time."""
        return max(0.0, self.rate * (time_ms - self.lag_ms))


def likely(setting: Setting, block: Sequence[Part], family: Family, freedom: Freedom, batch: int) -> tuple[Likely, ...]:
    """Estimate the best that a block may do in any time, the quickest for long times first; nothing if it can't."""
    parts = tuple((part.chip_class.name, part.chips) for part in block)

    def work() -> tuple[Likely, ...]:
        grid = grid_of(setting, block, freedom)
        if not len(grid):
            return ()
        rates, lags = grid.likely(family, batch)
        order = np.lexsort((lags, -rates))
        least = np.minimum.accumulate(np.concatenate([[np.inf], lags[order][:-1]]))
        kept = order[(lags[order] < least) & (rates[order] > 0)]
        return tuple(Likely(rate=float(rates[i]), lag_ms=float(lags[i])) for i in kept)

    return worked(setting, ("likely", parts, family, freedom, batch), work)


def grid_of(setting: Setting, block: Sequence[Part], freedom: Freedom) -> Grid:
    """List a block's layouts, once."""
    parts = tuple((part.chip_class.name, part.chips) for part in block)
    return worked(setting, ("grid", parts, freedom), lambda: make_grid(setting, block, freedom))


def front(
    setting: Setting,
    block: Sequence[Part],
    family: Family,
    freedom: Freedom,
    links: Sequence[LongLink],
    batch: int,
    *,
    rivals: bool = True,
) -> tuple[Paced, ...]:
    """Find the choices of a block of which each does most in some time, the quickest for long times first.

    rivals: pipelines through several classes must do more than the best of each class alone.
    """
    parts = tuple((part.chip_class.name, part.chips) for part in block)

    def work() -> tuple[Paced, ...]:
        grid = grid_of(setting, block, freedom)
        alone = block if rivals and len(block) > 1 else ()
        fronts = [front(setting, [part], family, freedom, links, batch) for part in alone]
        return _front(setting, grid, family, links, batch, fronts)

    return worked(setting, ("front", parts, family, freedom, batch, rivals), work)


def _front(
    setting: Setting,
    grid: Grid,
    family: Family,
    links: Sequence[LongLink],
    batch: int,
    rivals: Sequence[Sequence[Paced]],
) -> tuple[Paced, ...]:
    if not len(grid):
        return ()
    rates, lags = grid.likely(family, batch)
    if not rates.any():
        return ()
    rounds_ms = lags + grid.count * grid.sequences / np.maximum(rates, 1e-300)
    longest_ms = 2 * (batch / float(rates.max()) + float(rounds_ms.min()))
    times_ms = np.geomspace(longest_ms * SHORTEST, longest_ms, TIMES)
    best: list[Paced] = []
    fitting: list[Paced] = []
    envelope = sum((most_done(choices, times_ms) for choices in rivals), start=np.zeros(TIMES))
    # What the likeliest does comes first, so that few others have to be tried.
    likely = np.maximum(0.0, rates[:, None] * (times_ms - lags[:, None]))
    peak = likely.max(axis=0)
    order = np.argsort(-(likely / np.maximum(peak, 1e-300)).max(axis=1), kind="stable")
    tried = idle = 0
    for index in order:
        # Where memory is short the likeliest layouts don't fit; only what fits and does no more is idle.
        if tried >= TRIED_MAX or (best and idle >= IDLE_MAX):
            break
        if not (likely[index] * UNSURE > envelope).any():
            continue
        tried += 1
        for layout in family_layouts(grid.layout(index), family, batch):
            choice = choose(setting, layout, links)
            if choice is not None:
                idle += 1
                fitting.append(choice)
                done = most_done([choice], times_ms)
                if (done > envelope).any():
                    idle = 0
                    best.append(choice)
                    envelope = np.maximum(envelope, done)
    kept = tuple(c for c in best if ((most_done([c], times_ms) >= envelope) & (envelope > 0)).any())
    # Where gradients take longer than all else, nothing is done in such times, yet something fits.
    return kept if kept or rivals else tuple(sorted(fitting, key=lambda c: c.lag_ms + batch / c.rate)[:1])


def most_done(choices: Sequence[Paced], times_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the sequences that the best of some choices does in each time."""
    rows = [np.where(times_ms >= c.least_ms, c.rate * (times_ms - c.lag_ms), 0.0) for c in choices]
    return np.max(rows, axis=0) if rows else np.zeros(len(times_ms))


def family_layouts(layout: Layout, family: Family, batch: int) -> Iterator[Layout]:
    """Give a layout the schedule of a family, if it can have it.

    Many micro-batches are held no differently from as many as there are places, except by GPipe, which is made for a
    few numbers of them, fewer than its places. Interleaved takes them in groups of as many as there are places, which
    must go into the batch.
    """
    depth = layout.depth
    if family.zero_stage >= 2 and depth > 1:
        return
    plain = replace(
        layout,
        schedule=family.schedule,
        virtual_stages=family.virtual_stages,
        zero_stage=family.zero_stage,
        shards=layout.count * layout.cp * layout.ep if family.zero_stage else 1,
        microbatches=depth,
    )
    if family.schedule == "interleaved":
        if depth > 1 and len(layout.runs) == 1 and batch % (depth * layout.sequences) == 0:
            yield replace(plain, microbatches=2 * depth * family.virtual_stages)
        return
    if family.schedule != "gpipe":
        if depth > 1 or family.schedule == "1f1b":
            yield plain
        return
    each = batch / layout.sequences / layout.count
    for microbatches in sorted({max(1, -int(-each * share // 1)) for share in GPIPE_SHARES}):
        if microbatches < depth:
            yield replace(plain, microbatches=microbatches)
