"""Setting aside the groups that surely stay blocked in a pass, all at once, so that it looks only at the others.

A group is set aside when no rung fits into free nodes, even counting those held or due for maintenance, its queue is
owed nothing, and enough gangs that go before it would have nodes held first. Must not know why nodes are withheld.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy.control.domains import LEVELS
from argosy.control.state import GroupKey, State
from argosy.control.wishes import Wishes

Mask = npt.NDArray[np.bool_]


class Sieve:
    """kept, rest: numbers of groups to look at, and of those set aside. wanted: pools that blocked groups could use.

    hopeless: those kept only since something may be freed for them.
    """

    def __init__(self, state: State, groups: Sequence[GroupKey], wishes: Wishes, strict: Sequence[bool]) -> None:
        rows = wishes.rows
        fits = _fitting(state)[rows] & wishes.may
        group_of = np.repeat(np.arange(len(groups)), np.diff(wishes.start))
        kept = np.zeros(len(groups), bool)
        np.logical_or.at(kept, group_of, fits)
        levels = np.array([len(row.path) for row in state.quota.rows], np.int64)
        owed = wishes.may & (wishes.deep < levels[wishes.queues])
        np.logical_or.at(kept, group_of, owed)
        ordinary = np.fromiter((g[1] >= 0 and g[3] == "" and not strict[g[0]] for g in groups), bool, len(groups))
        kept |= ~ordinary
        able = np.zeros(len(groups), bool)
        np.logical_or.at(able, group_of, fits)
        # Kept for what may be freed, not for what is free; those that stand alone are looked at in any case.
        self.hopeless = set(np.flatnonzero(kept & ~able & ordinary).tolist())
        for number in _holders(state, groups, wishes, kept):
            kept[number] = True
        self.kept: list[int] = np.flatnonzero(kept).tolist()
        self.rest: list[int] = np.flatnonzero(~kept).tolist()
        self.wanted = _wanted(state, rows[wishes.may])


def _fitting(state: State) -> Mask:
    """Say of every rung of every shape whether it fits, counting all that is free, withheld or not, but no spares."""
    nodes, shapes = state.nodes, state.shapes
    room = np.zeros((max(1, len(nodes.pools)), len(LEVELS)), np.int64)
    for pool, tree in enumerate(nodes.trees):
        with nodes.lent(number for number in nodes.withheld[pool] if not nodes.spare[number]):
            room[pool] = [tree.largest(level).free for level in range(len(LEVELS))]
    part_fits = shapes.part_nodes <= room[shapes.part_pool, shapes.part_level]
    fits: Mask = np.logical_and.reduceat(part_fits, shapes.part_start) if len(shapes.part_start) else part_fits
    return fits


def _holders(state: State, groups: Sequence[GroupKey], wishes: Wishes, kept: Mask) -> list[int]:
    """List the first gangs of each pool among those not kept: twice as many as may have nodes held."""
    most = 2 * state.policy.reservations
    counts: dict[int, int] = {}
    found = []
    gangs = [number for number in np.flatnonzero(~kept).tolist() if _is_gang(state, groups[number])]
    heads = [state.waiting[groups[number]][0] for number in gangs]
    for _, _, number in sorted((head[0], head[1], number) for head, number in zip(heads, gangs, strict=True)):
        begin, end = wishes.start[number], wishes.start[number + 1]
        if not wishes.may[begin:end].any():
            continue
        pools = [pool for pool, _, _ in state.shapes[groups[number][1]].parts[0]]
        if all(counts.get(pool, 0) < most for pool in pools):
            found.append(number)
            for pool in pools:
                counts[pool] = counts.get(pool, 0) + 1
    return found


def _is_gang(state: State, group: GroupKey) -> bool:
    parts = state.shapes[group[1]].parts[0]
    return len(parts) > 1 or parts[0][2] > 1


def _wanted(state: State, rows: npt.NDArray[np.int64]) -> set[int]:
    """List the pools of rungs that a queue may have and that ready nodes could hold."""
    shapes = state.shapes
    if not len(rows):
        return set()
    asked = np.zeros(len(shapes.part_start), bool)
    asked[rows] = True
    ready = np.array(state.nodes.ready_count, np.int64)
    holds = shapes.part_nodes <= ready[shapes.part_pool]
    possible = asked & np.logical_and.reduceat(holds, shapes.part_start)
    per_part = np.repeat(possible, np.diff(shapes.part_start, append=len(shapes.part_nodes)))
    return set(np.unique(shapes.part_pool[per_part]).tolist())
