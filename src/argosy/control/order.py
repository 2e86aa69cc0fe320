"""The one order of the pass: entitled before borrowing, then priority, then who is furthest below its share, then age.

Every queue is a line of groups of like jobs, sorted by how much they must borrow, priority and age; a strict queue's
line is sorted by priority and age alone. A small heap decides between queues. Must not know what is free.
"""

import heapq
from collections.abc import Callable, Iterator

from argosy.contracts.policy import SECOND_US
from argosy.control.decay import average, faded
from argosy.control.nodes import FOREVER
from argosy.control.sieve import Sieve
from argosy.control.state import BLOCKED, Blocked, GroupKey, QueueUse, State
from argosy.control.wishes import Wishes

SIEVED_AFTER = (600, 1_500, 3_500)
"""After so many lanes looked at the rest is sieved again."""

Key = tuple[int, int, tuple[int, ...], int]


class Lane:
    """One group in the pass. depths, allowed: of its rungs, as of version `seen` of its queue. number: in the order."""

    __slots__ = ("allowed", "depths", "group", "number", "queue", "seen", "tier")

    def __init__(self, number: int, group: GroupKey, depths: list[int], allowed: list[bool], tier: int) -> None:
        self.number, self.group, self.queue, self.depths, self.allowed = number, group, group[0], depths, allowed
        self.seen = 0
        self.tier = tier


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
    """Gives lane after lane; keys only grow worse while jobs are placed, so a stale one is put back.

    known: tells what is known already of a group that no free node suffices for, so that it is not looked at. wanted:
    pools that groups set aside at the start could use, had they enough free nodes.
    """

    def __init__(self, state: State, known: Callable[[GroupKey], Blocked | None] = lambda _: None) -> None:
        self.state, self._known = state, known
        self.wanted: set[int] = set()
        self._past = [_past(state, row.name) for row in state.quota.rows]
        self._shares: list[tuple[int, ...] | None] = [None] * len(state.quota.rows)
        self._versions = [0] * len(state.quota.rows)
        self._strict = [queue.order == "strict" for queue in state.policy.queues]
        self._lines: dict[int, Line] = {}
        self._heap: list[tuple[Key, int]] = []
        # Of every lane, by number; a lane itself is made when it is looked at, which most never are.
        self._groups: list[GroupKey] = []
        self._tiers: list[int] = []
        self._wishes: list[tuple[int, Wishes, list[int]]] = []
        self._hopeless: set[int] = set()
        self._queued: set[GroupKey] = set()
        self._worth = True
        self._add(list(state.waiting), sieved=True)

    def __iter__(self) -> Iterator[Lane]:
        """Give the next lane; call `again` or `deeper` to put it back."""
        entry: tuple[Key, int] | None = None
        looked = 0
        while True:
            if looked in SIEVED_AFTER and self._worth:
                self._sieve_again()
                looked, entry = looked + 1, None
            if self.state.arrived:
                self._add_arrived()
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
                number = heapq.heappop(bucket)[2]
                group = self._groups[number]
                self._queued.discard(group)
                known = self._known(group) if number in self._hopeless else None
                if known is not None:
                    self.state.why[group] = known
                elif group in self.state.waiting:
                    looked += 1
                    yield self._lane(number)
            following = self._entry(line)
            entry = None if following is None else heapq.heappushpop(self._heap, following)

    def again(self, lane: Lane) -> None:
        """Put a lane back after its first job was placed, if it has more."""
        if lane.group in self.state.waiting:
            self._put(lane)

    def deeper(self, lane: Lane, tier: int) -> None:
        """Put a lane back to be tried with more borrowing."""
        lane.tier = tier
        self._put(lane)

    def drop_hopeless(self) -> None:
        """Set aside all lanes that no free node suffices for: nothing more is freed in this pass."""
        for line in self._lines.values():
            for bucket in line.buckets:
                gone = [self._groups[entry[2]] for entry in bucket if entry[2] in self._hopeless]
                if gone:
                    bucket[:] = [entry for entry in bucket if entry[2] not in self._hopeless]
                    heapq.heapify(bucket)
                    self._queued.difference_update(gone)
                    self.state.why.update(dict.fromkeys(gone, BLOCKED))

    def used(self, queue: int) -> None:
        """Note that a queue's use changed, and with it the shares of all that share an ancestor."""
        top = self.state.quota.rows[queue].path[-1]
        for number, row in enumerate(self.state.quota.rows):
            if row.path[-1] == top:
                self._versions[number] += 1
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
        before, version = lane.tier, self._versions[lane.queue]
        if lane.seen != version and lane.depths:
            quota, needs = self.state.quota, self.state.shapes[lane.group[1]].needs
            lane.depths = [quota.depth(lane.queue, need) for need in needs]
            lane.allowed = [
                quota.excess(lane.queue, need, depth) is None for need, depth in zip(needs, lane.depths, strict=True)
            ]
            lane.seen = version
            lane.tier = max(lane.tier, min(lane.depths))
        return lane.tier > before

    def _lane(self, number: int) -> Lane:
        """Make a lane from what all groups' wishes said when it came."""
        base, wishes, versions = next(item for item in reversed(self._wishes) if item[0] <= number)
        begin, end = wishes.start[number - base], wishes.start[number - base + 1]
        depths, allowed = wishes.depth[begin:end], wishes.allowed[begin:end]
        lane = Lane(number, self._groups[number], depths, allowed, self._tiers[number])
        lane.seen = versions[lane.queue]
        return lane

    def _entry(self, line: Line) -> tuple[Key, int] | None:
        """Give where a line stands; what its lanes must borrow is judged anew only when one could start."""
        bucket = line.first()
        if bucket is None:
            return None
        priority, number, lane = bucket[0]
        return (self._tiers[lane], priority, self.share(line.queue), number), line.queue

    def _put(self, lane: Lane) -> None:
        self._tiers[lane.number] = lane.tier
        self._queued.add(lane.group)
        priority, number, _ = self.state.waiting[lane.group][0]
        heapq.heappush(self._lines[lane.queue].bucket(lane.tier), (priority, number, lane.number))

    def _settled(self) -> set[str]:
        """List the jobs with nodes held for them whose turn is over."""
        queued = {group[3] for group in self._queued if group[3]}
        return set(self.state.reservations) - queued if self._wishes else set()

    def _sieve_again(self) -> None:
        """Set aside what stays blocked by now: starts have used up much of what was free."""
        before = len(self.state.why)
        groups = [self._groups[entry[2]] for line in self._lines.values() for b in line.buckets for entry in b]
        self._lines = {}
        self._add([group for group in groups if group in self.state.waiting], sieved=True)
        # Where most are kept for what may be freed, sieving costs more than it saves.
        self._worth = len(self.state.why) - before > len(groups) // 4

    def _add_arrived(self) -> None:
        """Take in groups of jobs that came back meanwhile, or gave up nodes held for them."""
        waiting, why = self.state.waiting, self.state.why
        arrived = list(dict.fromkeys(self.state.arrived))
        self._add([g for g in arrived if g in waiting and g not in self._queued and g not in why], sieved=False)

    def _add(self, groups: list[GroupKey], sieved: bool) -> None:
        """Put groups in line; those that surely stay blocked are set aside."""
        state, base = self.state, len(self._groups)
        state.arrived.clear()
        wishes = Wishes(state, groups)
        kept = list(range(len(groups)))
        if sieved:
            sieve = Sieve(state, groups, wishes, self._strict, self._settled())
            self.wanted |= sieve.wanted
            kept, self._hopeless = sieve.kept, {base + number for number in sieve.hopeless}
            state.why.update(dict.fromkeys((groups[index] for index in sieve.rest), BLOCKED))
        self._groups += groups
        self._tiers += wishes.tiers
        self._wishes.append((base, wishes, self._versions[:]))
        self._queued.update(groups[index] for index in kept)
        for index in kept:
            group = groups[index]
            priority, number, _ = state.waiting[group][0]
            self._line(group[0]).bucket(wishes.tiers[index]).append((priority, number, base + index))
        self._heap = []
        for line in self._lines.values():
            for bucket in line.buckets:
                heapq.heapify(bucket)
            entry = self._entry(line)
            if entry is not None:
                heapq.heappush(self._heap, entry)

    def _line(self, queue: int) -> Line:
        if queue not in self._lines:
            tiers = len(self.state.quota.rows[queue].path) + 1
            self._lines[queue] = Line(queue, self._strict[queue], tiers)
        return self._lines[queue]


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
