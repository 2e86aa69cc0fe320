"""The one order of the pass: entitled before borrowing, then priority, then who is furthest below its share, then age.

Every queue is a line of groups of like jobs, sorted by how much they must borrow, priority and age; a strict queue's
line is sorted by priority and age alone. A small heap decides between queues. Must not know what is free.
"""

import heapq
from collections.abc import Iterator

from argosy.contracts.policy import SECOND_US
from argosy.control.decay import average, faded
from argosy.control.nodes import FOREVER
from argosy.control.state import GroupKey, QueueUse, State
from argosy.control.wishes import Wishes

Key = tuple[int, int, tuple[int, ...], int]


class Lane:
    """One group in the pass. depths, allowed: of its rungs, as of version `seen` of its queue."""

    __slots__ = ("allowed", "depths", "group", "queue", "seen", "tier")

    def __init__(self, group: GroupKey, depths: list[int], allowed: list[bool]) -> None:
        self.group, self.queue, self.depths, self.allowed = group, group[0], depths, allowed
        self.seen = 0
        self.tier = min(depths, default=0)


class Line:
    """One queue's lanes by tier. strict: all in one tier, whatever they must borrow."""

    __slots__ = ("buckets", "queue", "strict")

    def __init__(self, queue: int, strict: bool) -> None:
        self.queue, self.strict = queue, strict
        self.buckets: dict[int, list[tuple[int, int, int]]] = {}

    def put(self, tier: int, entry: tuple[int, int, int]) -> None:
        """Put a lane's first job (priority, number, lane) into the line."""
        heapq.heappush(self.buckets.setdefault(0 if self.strict else tier, []), entry)

    def head(self) -> tuple[int, int, int] | None:
        """Give the lane that is next."""
        for tier in sorted(self.buckets):
            if self.buckets[tier]:
                return self.buckets[tier][0]
        return None

    def take(self) -> tuple[int, int, int]:
        """Take the next lane out."""
        tier = min(tier for tier, bucket in self.buckets.items() if bucket)
        return heapq.heappop(self.buckets[tier])


class Order:
    """Gives lane after lane; keys only grow worse while jobs are placed, so a stale one is put back."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._past = [_past(state, row.name) for row in state.quota.rows]
        self.lanes: list[Lane] = []
        self.versions = [0] * len(state.quota.rows)
        self._lines: dict[int, Line] = {}
        self._heap: list[tuple[Key, int]] = []
        self._queued: set[GroupKey] = set()
        self._arrivals = -1
        self._shares: list[tuple[int, ...] | None] = [None] * len(state.quota.rows)
        self._add_new()

    def __iter__(self) -> Iterator[int]:
        """Give the number of the next lane; call `again` or `deeper` to put it back."""
        while self._heap or self._arrivals != self.state.arrivals:
            if self._arrivals != self.state.arrivals:
                self._add_new()
                continue
            key, queue = heapq.heappop(self._heap)
            line = self._lines[queue]
            head = line.head()
            if head is None:
                continue
            now = self._key(line, head)
            if now > key:
                heapq.heappush(self._heap, (now, queue))
                continue
            line.take()
            self._queued.discard(self.lanes[head[2]].group)
            if self.lanes[head[2]].group in self.state.waiting:
                yield head[2]
            self._push(line)

    def again(self, lane: int) -> None:
        """Put a lane back after its first job was placed, if it has more."""
        members = self.state.waiting.get(self.lanes[lane].group)
        if members:
            self._put(lane, members[0])

    def deeper(self, lane: int, tier: int) -> None:
        """Put a lane back to be tried with more borrowing."""
        self.lanes[lane].tier = tier
        self._put(lane, self.state.waiting[self.lanes[lane].group][0])

    def used(self, queue: int) -> None:
        """Note that a queue's use changed, and with it the shares of all that share an ancestor."""
        top = self.state.quota.rows[queue].path[-1]
        for number, row in enumerate(self.state.quota.rows):
            if row.path[-1] == top:
                self.versions[number] += 1
                self._shares[number] = None

    def share(self, queue: int) -> tuple[int, ...]:
        """Give past and present use / weight of a queue's ancestors and itself, outermost first."""
        known = self._shares[queue]
        if known is None:
            rows = self.state.quota.rows
            known = tuple(
                (self._past[place] + rows[place].held[-1]) * 1000 // rows[place].weight_milli
                for place in reversed(rows[queue].path)
            )
            self._shares[queue] = known
        return known

    def refresh(self, lane: Lane) -> bool:
        """Judge a lane's rungs anew if its queue's use changed since; True if it must borrow more than before."""
        before = lane.tier
        version = self.versions[lane.queue]
        if lane.seen != version and lane.depths:
            quota, needs = self.state.quota, self.state.shapes[lane.group[1]].needs
            lane.depths = [quota.depth(lane.queue, need) for need in needs]
            lane.allowed = [
                quota.excess(lane.queue, need, depth) is None for need, depth in zip(needs, lane.depths, strict=True)
            ]
            lane.seen = version
            lane.tier = max(lane.tier, min(lane.depths))
        return lane.tier > before

    def _key(self, line: Line, head: tuple[int, int, int]) -> Key:
        # What a lane must borrow is judged anew only when it could start: most never can.
        return self.lanes[head[2]].tier, head[0], self.share(line.queue), head[1]

    def _put(self, lane: int, member: tuple[int, int, str]) -> None:
        self._queued.add(self.lanes[lane].group)
        self._lines[self.lanes[lane].queue].put(self.lanes[lane].tier, (member[0], member[1], lane))

    def _push(self, line: Line) -> None:
        head = line.head()
        if head is not None:
            heapq.heappush(self._heap, (self._key(line, head), line.queue))

    def _add_new(self) -> None:
        """Take in groups that are new: all at first, later those of jobs that came back meanwhile."""
        state = self.state
        waiting = state.waiting if self._arrivals < 0 else dict.fromkeys(state.arrived)
        fresh = [g for g in waiting if g in state.waiting and g not in self._queued and g not in state.why]
        self._arrivals = state.arrivals
        state.arrived.clear()
        wishes = Wishes(state, fresh)
        orders = [queue.order for queue in state.policy.queues]
        for index, group in enumerate(fresh):
            begin, end = wishes.start[index], wishes.start[index + 1]
            lane = Lane(group, wishes.depth[begin:end], wishes.allowed[begin:end])
            lane.seen = self.versions[lane.queue]
            line = self._lines.get(lane.queue)
            if line is None:
                line = self._lines[lane.queue] = Line(lane.queue, orders[lane.queue] == "strict")
            priority, number, _ = state.waiting[group][0]
            line.buckets.setdefault(0 if line.strict else lane.tier, []).append((priority, number, len(self.lanes)))
            self.lanes.append(lane)
        self._queued.update(fresh)
        self._heap = []
        for line in self._lines.values():
            for bucket in line.buckets.values():
                heapq.heapify(bucket)
            self._push(line)


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
