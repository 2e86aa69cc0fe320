"""The one order of the pass: entitled before borrowing, then priority, then who is furthest below its share, then age.

Every queue is a line of groups of like jobs, sorted by how much they must borrow, priority and age; a strict queue's
line is sorted by priority and age alone. A small heap decides between queues. Must not know what is free.
"""

import heapq
from collections.abc import Iterator

from argosy.contracts.policy import SECOND_US
from argosy.control.decay import average, faded
from argosy.control.nodes import FOREVER
from argosy.control.sieve import Sieve
from argosy.control.state import BLOCKED, GroupKey, QueueUse, State
from argosy.control.wishes import Wishes

Key = tuple[int, int, tuple[int, ...], int]


class Lane:
    """One group in the pass. depths, allowed: of its rungs, as of version `seen` of its queue."""

    __slots__ = ("allowed", "depths", "group", "hopeless", "queue", "seen", "tier")

    def __init__(self, group: GroupKey, depths: list[int], allowed: list[bool]) -> None:
        self.group, self.queue, self.depths, self.allowed = group, group[0], depths, allowed
        self.seen = 0
        self.hopeless = False
        self.tier = min(depths, default=0)


class Line:
    """One queue's lanes by tier. strict: all in one tier, whatever they must borrow."""

    __slots__ = ("buckets", "queue", "strict")

    def __init__(self, queue: int, strict: bool, tiers: int) -> None:
        self.queue, self.strict = queue, strict
        self.buckets: list[list[tuple[int, int, int]]] = [[] for _ in range(tiers)]

    def bucket(self, tier: int) -> list[tuple[int, int, int]]:
        """Give the bucket for a tier: a heap of lanes' first jobs as (priority, number, lane)."""
        return self.buckets[0 if self.strict else tier]

    def first(self) -> list[tuple[int, int, int]] | None:
        """Give the first bucket that is not empty."""
        for bucket in self.buckets:
            if bucket:
                return bucket
        return None


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
        self.wanted: set[int] = set()
        self._shares: list[tuple[int, ...] | None] = [None] * len(state.quota.rows)
        self._add_new()

    def __iter__(self) -> Iterator[int]:
        """Give the number of the next lane; call `again` or `deeper` to put it back."""
        entry: tuple[Key, int] | None = None
        while True:
            if self._arrivals != self.state.arrivals:
                self._add_new()
                entry = None
            if entry is None:
                if not self._heap:
                    return
                entry = heapq.heappop(self._heap)
            line = self._lines[entry[1]]
            fresh = self._entry(line)
            if fresh is not None and fresh > entry:
                entry = heapq.heappushpop(self._heap, fresh)
                continue
            bucket = line.first()
            if bucket is not None:
                lane = heapq.heappop(bucket)[2]
                group = self.lanes[lane].group
                self._queued.discard(group)
                if group in self.state.waiting:
                    yield lane
            following = self._entry(line)
            entry = None if following is None else heapq.heappushpop(self._heap, following)

    def again(self, lane: int) -> None:
        """Put a lane back after its first job was placed, if it has more."""
        members = self.state.waiting.get(self.lanes[lane].group)
        if members:
            self._put(lane, members[0])

    def deeper(self, lane: int, tier: int) -> None:
        """Put a lane back to be tried with more borrowing."""
        self.lanes[lane].tier = tier
        self._put(lane, self.state.waiting[self.lanes[lane].group][0])

    def drop_hopeless(self) -> None:
        """Set aside all lanes that no free node suffices for: nothing more is freed in this pass."""
        for line in self._lines.values():
            for bucket in line.buckets:
                gone = [entry for entry in bucket if self.lanes[entry[2]].hopeless]
                if gone and not line.strict:
                    bucket[:] = [entry for entry in bucket if not self.lanes[entry[2]].hopeless]
                    heapq.heapify(bucket)
                    groups = [self.lanes[entry[2]].group for entry in gone]
                    self._queued.difference_update(groups)
                    self.state.why.update(dict.fromkeys(groups, BLOCKED))

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

    def _entry(self, line: Line) -> tuple[Key, int] | None:
        """Give where a line stands; what its lanes must borrow is judged anew only when one could start."""
        bucket = line.first()
        if bucket is None:
            return None
        priority, number, lane = bucket[0]
        return (self.lanes[lane].tier, priority, self.share(line.queue), number), line.queue

    def _put(self, lane: int, member: tuple[int, int, str]) -> None:
        place = self.lanes[lane]
        self._queued.add(place.group)
        heapq.heappush(self._lines[place.queue].bucket(place.tier), (member[0], member[1], lane))

    def _add_new(self) -> None:
        """Take in groups that are new: all at first, later those of jobs that came back meanwhile."""
        state = self.state
        first = self._arrivals < 0
        waiting = state.waiting if first else dict.fromkeys(state.arrived)
        fresh = [g for g in waiting if g in state.waiting and g not in self._queued and g not in state.why]
        self._arrivals = state.arrivals
        state.arrived.clear()
        wishes = Wishes(state, fresh)
        strict = [queue.order == "strict" for queue in state.policy.queues]
        kept, hopeless = range(len(fresh)), set[int]()
        if first:
            sieve = Sieve(state, fresh, wishes, strict)
            self.wanted, kept, hopeless = sieve.wanted, sieve.kept, sieve.hopeless
            state.why.update(dict.fromkeys((fresh[index] for index in sieve.rest), BLOCKED))
        for index in kept:
            group = fresh[index]
            self._queued.add(group)
            begin, end = wishes.start[index], wishes.start[index + 1]
            lane = Lane(group, wishes.depth[begin:end], wishes.allowed[begin:end])
            lane.seen = self.versions[lane.queue]
            lane.hopeless = index in hopeless
            line = self._lines.get(lane.queue)
            if line is None:
                tiers = len(state.quota.rows[lane.queue].path) + 1
                line = self._lines[lane.queue] = Line(lane.queue, strict[lane.queue], tiers)
            priority, number, _ = state.waiting[group][0]
            line.bucket(lane.tier).append((priority, number, len(self.lanes)))
            self.lanes.append(lane)
        self._heap = []
        for line in self._lines.values():
            for bucket in line.buckets:
                heapq.heapify(bucket)
            entry = self._entry(line)
            if entry is not None:
                heapq.heappush(self._heap, entry)


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
