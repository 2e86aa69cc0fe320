"""Setting aside the groups that surely stay blocked in a pass, all at once, so that it looks only at the others.

A group is set aside when no rung fits into free nodes, counting those that are withheld from others but not from it,
its queue is owed nothing, and enough gangs that go before it would have nodes held first. Must not know why nodes are
withheld.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from argosy.control.domains import LEVELS, PoolTree
from argosy.control.nodes import FOREVER
from argosy.control.place import HORIZON_US
from argosy.control.state import GroupKey, State
from argosy.control.wishes import Wishes

LIMITS_MAX = 16
"""Time limits are told apart as so many; one in between counts as the shorter, which may use more."""

Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Sieve:
    """Tells the groups of waiting jobs that a pass must look at from those it can set aside.

    kept, rest: numbers of groups to look at, and of those set aside. wanted: pools that blocked groups could use.
    hopeless: those kept only since something may be freed for them. settled: jobs whose turn in the pass is over, so
    that nobody who comes now goes before them.
    """

    def __init__(
        self, state: State, groups: Sequence[GroupKey], wishes: Wishes, strict: Sequence[bool], settled: Collection[str]
    ) -> None:
        rows, group_of = wishes.rows, np.repeat(np.arange(len(groups)), np.diff(wishes.start))
        limits = np.fromiter((group[2] for group in groups), np.int64, len(groups))
        fits = _fitting(state, rows, limits[group_of], settled) & wishes.may
        able = np.zeros(len(groups), bool)
        np.logical_or.at(able, group_of, fits)
        levels = np.array([len(row.path) for row in state.quota.rows], np.int64)
        owed = np.zeros(len(groups), bool)
        np.logical_or.at(owed, group_of, wishes.may & (wishes.deep < levels[wishes.queues]))
        ordinary = np.fromiter((g[1] >= 0 and g[3] == "" and not strict[g[0]] for g in groups), bool, len(groups))
        kept = able | owed | ~ordinary
        self.hopeless = set(np.flatnonzero(kept & ~able & ordinary).tolist())
        for number in _holders(state, groups, wishes, kept):
            kept[number] = True
        self.kept: list[int] = np.flatnonzero(kept).tolist()
        self.rest: list[int] = np.flatnonzero(~kept).tolist()
        self.wanted = _wanted(state, rows[wishes.may & ~able[group_of]])


def _fitting(state: State, rows: Array, limits: Array, settled: Collection[str]) -> Mask:
    """Say of every row whether it fits into what is free for so long, spares left out."""
    shapes = state.shapes
    if not len(rows):
        return np.zeros(0, bool)
    steps = np.unique(limits)
    if len(steps) > LIMITS_MAX:
        steps = steps[np.linspace(0, len(steps) - 1, LIMITS_MAX).astype(int)]
    step = np.searchsorted(steps, limits, side="right") - 1
    room = np.stack([_room(state, pool, tree, steps, settled) for pool, tree in enumerate(state.nodes.trees)], axis=1)
    sizes = np.diff(shapes.part_start, append=len(shapes.part_nodes))[rows]
    ends = np.cumsum(sizes)
    parts = np.arange(ends[-1]) + np.repeat(shapes.part_start[rows] - (ends - sizes), sizes)
    has = room[np.repeat(step, sizes), shapes.part_pool[parts], shapes.part_level[parts]]
    fits: Mask = np.logical_and.reduceat(shapes.part_nodes[parts] <= has, ends - sizes)
    return fits


def _room(state: State, pool: int, tree: PoolTree, steps: Array, settled: Collection[str]) -> Array:
    """Give the free nodes of a pool's fullest domain by time limit and level."""
    nodes = state.nodes
    extra = [number for number in nodes.withheld[pool] if not nodes.spare[number]]
    window = np.array([nodes.until_us[number] for number in extra], np.int64) - state.now_us
    held = [nodes.lock_until[n] - state.now_us if nodes.lock[n] in settled else FOREVER for n in extra]
    lock = np.array(held, np.int64)
    room = np.zeros((len(steps), len(LEVELS)), np.int64)
    for level in range(len(LEVELS)):
        free = np.array([domain.free for domain in tree.at(level)] or [0], np.int64)
        where = np.array([nodes.leaf[number].above[level].number for number in extra], np.int64)
        for index, limit_us in enumerate(steps.tolist()):
            usable = (min(limit_us, HORIZON_US) if limit_us == FOREVER else limit_us) <= window
            usable &= limit_us <= lock
            room[index, level] = (free + np.bincount(where[usable], minlength=len(free))).max()
    return room


def _holders(state: State, groups: Sequence[GroupKey], wishes: Wishes, kept: Mask) -> list[int]:
    """List the first gangs of each pool among those not kept: twice as many as may have nodes held."""
    most = 2 * state.policy.reservations
    counts: dict[int, int] = {}
    found = []
    gangs = [number for number in np.flatnonzero(~kept).tolist() if _is_gang(state, groups[number])]
    heads = [state.waiting[groups[number]][0] for number in gangs]
    for _, _, number in sorted((head[0], head[1], number) for head, number in zip(heads, gangs, strict=True)):
        pools = [pool for pool, _, _ in state.shapes[groups[number][1]].parts[0]]
        allowed = any(wishes.allowed[wishes.start[number] : wishes.start[number + 1]])
        if allowed and all(counts.get(pool, 0) < most for pool in pools):
            found.append(number)
            for pool in pools:
                counts[pool] = counts.get(pool, 0) + 1
    return found


def _is_gang(state: State, group: GroupKey) -> bool:
    parts = state.shapes[group[1]].parts[0]
    return len(parts) > 1 or parts[0][2] > 1


def _wanted(state: State, rows: Array) -> set[int]:
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
