"""Cut a row of layers into consecutive stages so that the slowest stage is as fast as possible.

Exact, by dynamic programming over (stage, end layer); stages may differ in speed and memory, and every stage gets at
least one layer. Must not know what the times and bytes stand for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


# Tables of spans that are kept: one takes 8 x layers^2 bytes, and pipelines of other depths ask for the same.
SPANS_KEPT = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageCosts:
    """What layers cost on one stage of a pipeline.

    layer_ms, layer_gb: by layer. fixed_ms, fixed_gb: what the stage has besides its layers (embedding on the first,
    head on the last). limit_gb: memory that the stage's chips have.
    """

    layer_ms: Floats
    layer_gb: Floats
    fixed_ms: float = 0.0
    fixed_gb: float = 0.0
    limit_gb: float = float("inf")


def partition(stages: Sequence[StageCosts]) -> tuple[int, ...] | None:
    """Find each stage's end layer with the least time of the slowest stage; None if no split fits in memory.

    Among equal answers earlier stages hold fewer layers, for they hold more micro-batches. O(stages x layers^2).

    >>> even = StageCosts(layer_ms=np.ones(4), layer_gb=np.ones(4))
    >>> partition([even, even])
    (2, 4)
    """
    layers = len(stages[0].layer_ms)
    if len(stages) > layers or not can_fit(stages):
        return None
    best = np.full(layers + 1, np.inf)
    best[0] = 0.0
    froms = []
    rows = np.arange(layers + 1)
    for stage in stages:
        reach = np.maximum(best, span_costs(stage))
        froms.append(reach.argmin(axis=1))
        best = reach[rows, froms[-1]]
    if not np.isfinite(best[layers]):
        return None
    ends = [layers]
    for choice in reversed(froms[1:]):
        ends.append(int(choice[ends[-1]]))
    return tuple(reversed(ends))


def can_fit(stages: Sequence[StageCosts]) -> bool:
    """Tell quickly that no split fits: let each stage take all the layers it can hold and see whether one is left."""
    first = 0
    for stage in stages:
        filled_gb = np.cumsum(stage.layer_gb[first:])
        first += int(np.searchsorted(filled_gb, stage.limit_gb - stage.fixed_gb, side="right"))
    return first >= len(stages[0].layer_gb)


@lru_cache(maxsize=SPANS_KEPT)
def span_costs(stage: StageCosts) -> Floats:
    """Tabulate by end j and start i the time of layers i..j on a stage.

    Infinite where they don't fit, or where there is none (j <= i).
    """
    layers = len(stage.layer_ms)
    times = np.concatenate([[0.0], np.cumsum(stage.layer_ms)])
    bytes_gb = np.concatenate([[0.0], np.cumsum(stage.layer_gb)])
    costs: Floats = times[:, None] - times[None, :] + stage.fixed_ms
    used_gb = bytes_gb[:, None] - bytes_gb[None, :] + stage.fixed_gb
    index = np.arange(layers + 1)
    costs[(used_gb > stage.limit_gb) | (index[:, None] <= index[None, :])] = np.inf
    return costs


def fullest(stages: Sequence[StageCosts]) -> float:
    """Find the least memory, in 10^9 bytes, that the fullest stage of any split needs; infinite with too few layers."""
    split = partition(
        [
            StageCosts(
                layer_ms=stage.layer_gb,
                layer_gb=np.zeros_like(stage.layer_gb),
                fixed_ms=stage.fixed_gb,
                limit_gb=np.inf,
            )
            for stage in stages
        ]
    )
    if split is None:
        return float("inf")
    starts = (0, *split[:-1])
    return max(float(s.layer_gb[a:b].sum()) + s.fixed_gb for s, a, b in zip(stages, starts, split, strict=True))
