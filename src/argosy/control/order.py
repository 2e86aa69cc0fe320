"""The one order of the pass: entitled before borrowing, then priority, then who is furthest below its share, then age.

A best-effort queue lets each group of like jobs stand for itself; in a strict one only the head of the queue is looked
at, until it is placed or found blocked. Must not know what is free.
"""

import heapq
from collections.abc import Iterator

from argosy.contracts.policy import SECOND_US
from argosy.control.decay import average, faded
from argosy.control.nodes import FOREVER
from argosy.control.state import GroupKey, JobState, QueueUse, State

Key = tuple[int, int, tuple[int, ...], int]


class Lane:
    """Groups that are looked at one after the other. tier: how much borrowing the head is tried at."""

    __slots__ = ("groups", "queue", "tier")

    def __init__(self, queue: int, groups: list[GroupKey]) -> None:
        self.queue, self.groups, self.tier = queue, groups, 0


class Order:
    """Gives group after group; keys only grow worse while jobs are placed, so a stale one is put back."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._past = {row.name: _past(state, row.name) for row in state.quota.rows}
        self._lanes: list[Lane] = []
        self._heap: list[tuple[Key, int]] = []
        self._seen: set[GroupKey] = set()
        self._unheld = -1
        self._add_new()

    def __iter__(self) -> Iterator[tuple[Lane, GroupKey, JobState]]:
        """Give the lane, the group and the job that are next; call `blocked` when the group can have nothing."""
        while self._heap or self._unheld != self.state.unheld:
            if self._unheld != self.state.unheld:
                self._add_new()
                continue
            key, index = heapq.heappop(self._heap)
            lane = self._lanes[index]
            group = self._head(lane)
            if group is None:
                continue
            now = self._key(lane, group)
            if now > key:
                heapq.heappush(self._heap, (now, index))
                continue
            yield lane, group, self.state.jobs[self.state.waiting[group][0][2]]
            self._push(index)

    def blocked(self, lane: Lane, group: GroupKey) -> None:
        """Drop a group from its lane for this pass."""
        lane.groups.remove(group)
        lane.tier = 0

    def share(self, queue: int) -> tuple[int, ...]:
        """Give past and present use / weight of a queue's ancestors and itself, outermost first."""
        rows = self.state.quota.rows
        return tuple(
            (self._past[rows[place].name] + rows[place].held[-1]) * 1000 // rows[place].weight_milli
            for place in reversed(rows[queue].path)
        )

    def _head(self, lane: Lane) -> GroupKey | None:
        """Give the group of a lane whose first job has the best priority and age."""
        waiting = self.state.waiting
        if len(lane.groups) == 1:
            return lane.groups[0] if lane.groups[0] in waiting else None
        alive = [group for group in lane.groups if group in waiting]
        return min(alive, key=lambda group: waiting[group][0], default=None)

    def _key(self, lane: Lane, group: GroupKey) -> Key:
        """Work out where a lane's head stands."""
        state = self.state
        priority, number, _ = state.waiting[group][0]
        depth = lane.tier
        if group[1] >= 0:
            needs = state.shapes[group[1]].needs
            depth = max(depth, min(state.quota.depth(lane.queue, need) for need in needs))
        lane.tier = depth
        return depth, priority, self.share(lane.queue), number

    def _add_new(self) -> None:
        """Take in groups that are new: all at first, later those of jobs that lost the nodes held for them."""
        fresh = [group for group in self.state.waiting if group not in self._seen]
        self._seen.update(fresh)
        self._unheld = self.state.unheld
        for lane in _lanes(self.state, fresh):
            self._lanes.append(lane)
            self._push(len(self._lanes) - 1)

    def _push(self, index: int) -> None:
        lane = self._lanes[index]
        group = self._head(lane)
        if group is not None:
            heapq.heappush(self._heap, (self._key(lane, group), index))


def _lanes(state: State, groups: list[GroupKey]) -> Iterator[Lane]:
    """Put every group in a lane of its own, those of a strict queue in one."""
    strict: dict[int, list[GroupKey]] = {}
    orders = [queue.order for queue in state.policy.queues]
    for group in groups:
        if orders[group[0]] == "strict":
            strict.setdefault(group[0], []).append(group)
        else:
            yield Lane(group[0], [group])
    for queue, members in strict.items():
        yield Lane(queue, members)


def _past(state: State, queue: str) -> int:
    """Give the mean use that a queue's past stands for now, in normalised thousandths of chips."""
    use = state.use.get(queue, QueueUse(0, state.now_us))
    rate = state.quota.rows[state.quota.number[queue]].held[-1]
    half_life_us = state.half_life_us()
    return average(faded(use.use, rate, state.now_us - use.at_us, half_life_us), half_life_us)


def expected_end(state: State, queue: str, began_us: int, ends_us: int) -> int:
    """Foretell when an attempt ends, by how early its queue's jobs ended before their limits: the median."""
    samples = sorted(state.early.get(queue, []))
    if ends_us >= FOREVER or not samples:
        return ends_us
    middle = samples[len(samples) // 2]
    return max(state.now_us + SECOND_US, began_us + (ends_us - began_us) * middle // 1000)
