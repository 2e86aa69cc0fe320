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
# So many of those that do the batch first by themselves are kept besides.
QUICKEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Likely:
    """What replicas of some layout might do, before a layer is cut. rate, lag_ms: as of a choice.

    round_ms: from one micro-batch of a replica to the next.
    """

    rate: float
    lag_ms: float
    round_ms: float = 0.0

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
        rounds_ms = grid.count * grid.sequences / np.maximum(rates, 1e-300)
        return tuple(Likely(rate=float(rates[i]), lag_ms=float(lags[i]), round_ms=float(rounds_ms[i])) for i in kept)

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
    wholes_ms = whole_ms(grid, rates, lags, batch)
    peak = likely.max(axis=0)
    share = np.maximum((likely / np.maximum(peak, 1e-300)).max(axis=1), wholes_ms.min() / wholes_ms)
    firsts = [] if rivals else likeliest_each(grid, wholes_ms)
    order = list(dict.fromkeys([*firsts, *np.argsort(-share, kind="stable").tolist()]))
    tried = idle = 0
    for at, index in enumerate(order):
        # Where memory is short the likeliest layouts don't fit; only what fits and does no more is idle.
        if tried >= TRIED_MAX or (best and idle >= IDLE_MAX and at >= len(firsts)):
            break
        if at >= len(firsts) and not (likely[index] * UNSURE > envelope).any():
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
    kept = [c for c in best if ((most_done([c], times_ms) >= envelope) & (envelope > 0)).any()]
    # Where gradients take longer than all else, nothing is done in such times, yet something fits.
    quick = [] if rivals else quickest_each(fitting, batch)
    return tuple({id(c): c for c in [*kept, *quick]}.values())


def likeliest_each(grid: Grid, wholes_ms: NDArray[np.float64]) -> list[int]:
    """Find of each of the `strata` the layout that is likely quickest."""
    found: dict[object, int] = {}
    for index in np.argsort(wholes_ms, kind="stable").tolist():
        if not np.isfinite(wholes_ms[index]):
            break
        for key in strata(grid.plains[int(grid.which[index])]):
            found.setdefault(key, index)
    return list(dict.fromkeys(found.values()))


def quickest_each(choices: Sequence[Paced], batch: int) -> list[Paced]:
    """Choose the quickest few for a batch alone, and the quickest of each of the `strata`."""
    order = sorted(choices, key=lambda choice: choice.whole_ms(batch))
    found: dict[object, Paced] = {}
    for choice in order:
        for key in strata(choice.template.layout):
            found.setdefault(key, choice)
    return [*order[:QUICKEST], *found.values()]


def strata(layout: Layout) -> tuple[object, ...]:
    """Name what a job or another block may call for: a size of micro-batches, TP degrees, an order of classes."""
    runs = tuple((run.chip_class.name, run.tp) for run in layout.runs)
    return ("size", layout.microbatch_size), ("tp", frozenset(runs)), ("order", tuple(name for name, _ in runs))


def whole_ms(grid: Grid, rates: NDArray[np.float64], lags: NDArray[np.float64], batch: int) -> NDArray[np.float64]:
    """Estimate the time of a batch on all replicas of each layout alone, in whole micro-batches; infinite for none."""
    each = grid.count * grid.sequences
    wholes_ms: NDArray[np.float64] = np.ceil(batch / each) * each / np.maximum(rates, 1e-300) + lags
    return np.where(rates > 0, wholes_ms, np.inf)


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
