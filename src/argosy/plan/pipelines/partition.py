"""Cut a row of layers into consecutive stages so that the slowest stage is as fast as possible.

Exact, by halving the limit on the slowest stage; stages may differ in speed and memory, and every stage gets at least
one layer. What a stage can't hold as it is it recomputes, as few layers as fit. Must not know what the times and
bytes stand for.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HALVINGS = 60  # of an interval of times: more than a float tells apart
LONGEST_MS = 1e300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageCosts:
    """What layers cost at the stages of a pipeline; times in ms, sizes in 10^9 bytes.

    ms, kept_gb: by (kind of place, way to recompute, layers before), sums over the layers before: time, and what one
    micro-batch in flight keeps. state_gb: by (kind of place, layers before), whatever is in flight. Ways come with what
    is kept falling. kinds, held, limit_gb, fixed_ms: by stage: the kind of its place, micro-batches in flight, its
    memory, and the time of what it has besides layers; fixed_gb: the same in memory, by (stage, way). partly: the first
    layers of a stage may be recomputed and the rest not; else all go the same way.
    """

    ms: Floats
    kept_gb: Floats
    state_gb: Floats
    kinds: Integers
    held: Floats
    limit_gb: Floats
    fixed_ms: Floats
    fixed_gb: Floats
    partly: bool = True

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return len(self.kinds)

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return int(self.ms.shape[2]) - 1


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Where each stage ends, the way it recomputes and how many of its layers, from the first, go that way."""

    ends: tuple[int, ...]
    ways: tuple[int, ...]
    counts: tuple[int, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Each stage's first layer."""
        return (0, *self.ends[:-1])

    @cached_property
    def rows(self) -> Integers:
        """Starts, ends, ways and counts of all stages, as arrays."""
        return np.array((self.starts, self.ends, self.ways, self.counts))


def partition(costs: StageCosts) -> Cut | None:
    """Find the cut with the least time of the slowest stage; None if no cut fits in memory.

    Among equal answers earlier stages hold fewer layers, for they hold more micro-batches. Exact, for a span never
    takes less time or memory with a layer more; O(stages x log layers) for each limit tried.
    """
    if costs.stages > costs.layers:
        return None
    tables = _tables(costs)
    ends = _cut(tables)
    if not len(ends):
        return None
    ways, counts = _choices(tables, ends)
    return Cut(ends=tuple(ends.tolist()), ways=tuple(ways.tolist()), counts=tuple(counts.tolist()))


def used_gb(costs: StageCosts, cut: Cut, stage: int) -> float:
    """Give the memory of one stage of a cut, 10^9 bytes."""
    start, end = cut.starts[stage], cut.ends[stage]
    return float(_need_gb(_tables(costs), stage, start, end, cut.ways[stage], cut.counts[stage]))


def fullest(costs: StageCosts) -> float:
    """Find the least memory, in 10^9 bytes, that the fullest stage of any cut needs; infinite with too few layers.

    All layers go the way that keeps the least.
    """
    sizes = costs.state_gb[costs.kinds] + costs.held[:, None] * costs.kept_gb[costs.kinds, -1]
    lean = StageCosts(
        ms=sizes[:, None, :],
        kept_gb=np.zeros_like(sizes[:, None, :]),
        state_gb=np.zeros_like(sizes),
        kinds=np.arange(costs.stages),
        held=costs.held,
        limit_gb=np.full(costs.stages, np.inf),
        fixed_ms=costs.fixed_gb[:, -1],
        fixed_gb=np.zeros((costs.stages, 1)),
    )
    cut = partition(lean)
    if cut is None:
        return float("inf")
    spans = enumerate(zip(cut.starts, cut.ends, strict=True))
    return max(float(sizes[s, end] - sizes[s, start] + lean.fixed_ms[s]) for s, (start, end) in spans)


class _Tables(NamedTuple):
    """StageCosts as compiled code takes them."""

    ms: Floats
    kept: Floats
    state: Floats
    kinds: Integers
    held: Floats
    limit: Floats
    fixed_ms: Floats
    fixed_gb: Floats
    partly: bool


def _tables(costs: StageCosts) -> _Tables:
    return _Tables(
        costs.ms,
        costs.kept_gb,
        costs.state_gb,
        costs.kinds,
        costs.held,
        costs.limit_gb,
        costs.fixed_ms,
        costs.fixed_gb,
        costs.partly,
    )


@compiled
def _need_gb(t: _Tables, stage: int, start: int, end: int, way: int, count: int) -> float:
    """Give what layers start..end need on a stage if the first `count` go a way and the rest are not recomputed."""
    kind, middle = t.kinds[stage], start + count
    kept_gb = t.kept[kind, way, middle] - t.kept[kind, way, start] + t.kept[kind, 0, end] - t.kept[kind, 0, middle]
    besides_gb = t.fixed_gb[stage, way]
    if middle < end and t.fixed_gb[stage, 0] > besides_gb:
        besides_gb = t.fixed_gb[stage, 0]
    need_gb: float = besides_gb + t.state[kind, end] - t.state[kind, start] + t.held[stage] * kept_gb
    return need_gb


@compiled
def _span(t: _Tables, stage: int, start: int, end: int) -> tuple[float, int, int]:
    """Give the least time of layers start..end on a stage, the way it goes and how many layers go it; inf if none."""
    kind, most = t.kinds[stage], t.limit[stage]
    plain = t.fixed_ms[stage] + t.ms[kind, 0, end] - t.ms[kind, 0, start]
    if _need_gb(t, stage, start, end, 0, 0) <= most:
        return plain, 0, 0
    best, best_way, best_count = np.inf, 0, 0
    for way in range(1, t.ms.shape[1]):
        if _need_gb(t, stage, start, end, way, end - start) > most:
            continue
        low, high = 0 if t.partly else end - start - 1, end - start
        while high - low > 1:
            middle = (low + high) // 2
            if _need_gb(t, stage, start, end, way, middle) <= most:
                high = middle
            else:
                low = middle
        upto = start + high
        took = plain + t.ms[kind, way, upto] - t.ms[kind, way, start] - t.ms[kind, 0, upto] + t.ms[kind, 0, start]
        if took < best:
            best, best_way, best_count = took, way, high
    return best, best_way, best_count


@compiled
def _choices(t: _Tables, ends: Integers) -> tuple[Integers, Integers]:
    """Give the way that each stage of a cut goes, and how many layers go it."""
    ways, counts = np.zeros_like(ends), np.zeros_like(ends)
    start = 0
    for stage in range(len(ends)):
        _, ways[stage], counts[stage] = _span(t, stage, start, ends[stage])
        start = ends[stage]
    return ways, counts


@compiled
def _cut(t: _Tables) -> Integers:
    """Find the ends of the best cut; empty if there is none.

    Halves the interval between what no cut can do and what one does, until they meet: a limit that can be kept falls to
    the slowest stage of the cut that keeps it, one that can't rises to the least time that another layer would take.
    """
    ends = np.zeros(len(t.kinds), dtype=np.int64)
    low, (high, _, forced) = 0.0, _within(t, LONGEST_MS, ends)
    if high == np.inf:
        return _tabled(t) if forced else ends[:0]
    best = ends.copy()
    for _ in range(HALVINGS):
        if low >= high:
            break
        slowest, longer, forced = _within(t, (low + high) / 2, ends)
        if slowest < np.inf:
            high = slowest
            best[:] = ends
        elif forced:
            return _tabled(t)
        else:
            low = longer
    return best


@compiled
def _within(t: _Tables, limit_ms: float, ends: Integers) -> tuple[float, float, bool]:
    """Cut so that no stage takes longer than a limit, from the last stage on, each with as many layers as it can take.

    Answers the slowest stage's time (inf if there is no such cut), the least time above the limit that a stage would
    take with one layer more, and whether a stage had to hold a layer that another might have: only then may there be a
    cut where this finds none.
    """
    end, slowest, longer, forced = t.ms.shape[2] - 1, 0.0, np.inf, False
    for stage in range(len(ends) - 1, -1, -1):
        ends[stage] = end
        low, high = stage, end
        while low < high:
            start = (low + high) // 2
            if _span(t, stage, start, end)[0] <= limit_ms:
                high = start
            else:
                low = start + 1
        if low > stage:
            longer = min(longer, _span(t, stage, low - 1, end)[0])
        elif stage > 0:
            forced = forced or _span(t, stage, low - 1, end)[0] <= limit_ms
        if low == end:
            return np.inf, longer, forced or stage < len(ends) - 1
        slowest = max(slowest, _span(t, stage, low, end)[0])
        end = low
    return (slowest if end == 0 else np.inf), longer, forced


@compiled
def _tabled(t: _Tables) -> Integers:
    """Find the ends of the best cut by a table over (stage, end); slower, and right where layers are few and unlike.

    A span takes longer the earlier it starts, so a search backwards from its end stops at the first that is too long.
    """
    stages, layers = len(t.kinds), t.ms.shape[2] - 1
    best = np.full(layers + 1, np.inf)
    best[0] = 0.0
    froms = np.zeros((stages, layers + 1), dtype=np.int64)
    for stage in range(stages):
        after = np.full(layers + 1, np.inf)
        for end in range(stage + 1, layers + 1):
            for start in range(end - 1, stage - 1, -1):
                took = _span(t, stage, start, end)[0]
                if took > after[end] or took == np.inf:
                    break
                reach = max(took, best[start])
                if reach <= after[end] and reach < np.inf:
                    after[end] = reach
                    froms[stage, end] = start
        best = after
    ends = np.zeros(stages, dtype=np.int64)
    if best[layers] == np.inf:
        return ends[:0]
    end = layers
    for stage in range(stages - 1, -1, -1):
        ends[stage] = end
        end = froms[stage, end]
    return ends
