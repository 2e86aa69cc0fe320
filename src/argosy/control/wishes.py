"""All waiting groups seen at once: for every rung how far up it is entitled and whether a quota forbids it.

Worked out for all groups together in arrays, since most of them stay blocked in a pass; the pass asks `QuotaTree` again
only where a queue's use has changed meanwhile. Must not know nodes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy.control.state import GroupKey, State

Array = npt.NDArray[np.int64]


class Wishes:
    """Rows, one for each rung of each group: group i has rows start[i] to start[i + 1].

    depth: levels up to where the rung is entitled. allowed: no quota forbids it. rows: the rung's row among all shapes;
    queues, deep, may: queue, depth and allowed as arrays. tiers: of each group, the least depth of its rungs.
    """

    def __init__(self, state: State, groups: Sequence[GroupKey]) -> None:
        tables = state.shapes
        tables.count()
        shapes = np.fromiter((group[1] for group in groups), np.int64, len(groups))
        counts = np.where(shapes >= 0, tables.counts[shapes], 0) if len(tables.counts) else np.zeros_like(shapes)
        ends = np.cumsum(counts)
        self.start: list[int] = [0, *ends.tolist()]
        queues = np.repeat(np.fromiter((group[0] for group in groups), np.int64, len(groups)), counts)
        first = np.repeat(tables.starts[shapes], counts) if len(tables.counts) else shapes[:0]
        within = np.arange(len(first)) - np.repeat(ends - counts, counts)
        needs = tables.needs[first + within] if len(first) else tables.needs[:0]
        depth, allowed = _judge(state, queues, needs)
        self.rows, self.queues, self.deep, self.may = first + within, queues, depth, allowed
        self.depth: list[int] = depth.tolist()
        self.allowed: list[bool] = allowed.tolist()
        lowest = np.zeros(len(groups), np.int64)
        some = np.flatnonzero(counts > 0)
        if len(some):
            lowest[some] = np.minimum.reduceat(depth, (ends - counts)[some])
        self.tiers: list[int] = lowest.tolist()


def _judge(state: State, queues: Array, needs: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Give each row's depth, and whether every limit below that level leaves room; as `QuotaTree` does one by one."""
    quota = state.quota
    rows = quota.rows
    own, held, most, claim, protected = (
        np.array([getattr(row, name) for row in rows], np.int64)
        for name in ("own", "held", "most", "claim", "protected")
    )
    levels = max(len(row.path) for row in rows)
    paths = np.array([[*row.path, *[-1] * (levels - len(row.path))] for row in rows], np.int64)
    lengths = np.array([len(row.path) for row in rows], np.int64)[queues]
    asks = needs > 0
    depth = np.full(len(queues), -1, np.int64)
    room = np.ones(len(queues), bool)
    step = needs.copy()
    for level in range(levels):
        place = paths[queues, level]
        here = (place >= 0) & (depth < 0)
        counted = asks.copy()
        counted[:, -1] &= own[place, -1] > 0
        entitled = here & np.where(counted, held[place] + needs <= own[place], True).all(axis=1)
        depth[entitled] = level
        binding = here & ~entitled
        broken = (asks & (held[place] + step > most[place])).any(axis=1)
        room &= ~(binding & broken)
        grown = np.maximum(held[place] + step, protected[place]) - claim[place]
        step = np.where(binding[:, None], grown, step)
    nowhere = depth < 0
    depth[nowhere] = lengths[nowhere]
    top, used = np.array(quota.top_held, np.int64), np.array(quota.used, np.int64)
    kept = top > used
    kept[-1] = False
    over = (asks & kept & (top + step > np.array(quota.capacity, np.int64))).any(axis=1)
    return depth, room & ~(nowhere & over)
