"""The queue tree: what each queue owns, borrows and lends, by chip kind, and what its jobs hold.

A queue's *claim* on its parent is what it holds, or what it owns and does not lend, whichever is more; a parent holds
the sum of its children's claims. A queue is *entitled* at the nearest ancestor within whose guarantee the new use
stays. Limits above that ancestor do not bind: what stands in the way there was borrowed and can be reclaimed. A
guarantee in normalised chips bounds the sum of all kinds, and alone decides on those that the guarantee does not name.
Must not know jobs or nodes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy.contracts.policy import EVERY_KIND, NORMALISED, Policy, Queue

UNLIMITED = 2**60
WORTH_UNIT = 1000

Array = npt.NDArray[np.int64]
Amounts = tuple[tuple[int, int], ...]
"""Chips by kind's number, only kinds above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A limit that a new use would break. held: use there already; allowed: the most there may be."""

    queue: str
    kind: str
    held: int
    asked: int
    allowed: int


class QueueRow:
    """One queue's numbers, a list by kind each. path: its number, then its ancestors', outward.

    entitled: what it owns, UNLIMITED for a kind that its guarantee counts in normalised chips alone.
    """

    __slots__ = ("claim", "entitled", "held", "most", "name", "own", "path", "protected", "weight_milli")

    def __init__(self, name: str, kinds: int) -> None:
        self.name = name
        self.path: tuple[int, ...] = ()
        self.own, self.most, self.protected = [0] * kinds, [UNLIMITED] * kinds, [0] * kinds
        self.entitled = [0] * kinds
        self.held, self.claim = [0] * kinds, [0] * kinds
        self.weight_milli = 1000


class QuotaTree:
    """All queues over all chip kinds; the last kind counts normalised chips in thousandths.

    capacity: chips in ready nodes by kind, which claims may not exceed at the top by borrowing. used: chips held.
    levels, paths, table: the same as arrays; table by entitled, held, most, claim, protected, then queue, then kind.
    """

    def __init__(self, policy: Policy, kinds: tuple[str, ...]) -> None:
        self.kinds = (*kinds, NORMALISED)
        self.capacity = [0] * len(self.kinds)
        self.worth = [round(policy.worth.get(kind, 1.0) * WORTH_UNIT) for kind in kinds]
        self.number = {queue.name: index for index, queue in enumerate(policy.queues)}
        self.rows = [QueueRow(queue.name, len(self.kinds)) for queue in policy.queues]
        self.top_held, self.used = [0] * len(self.kinds), [0] * len(self.kinds)
        parents = [self.number.get(queue.parent, -1) for queue in policy.queues]
        for index, queue in enumerate(policy.queues):
            row = self.rows[index]
            row.weight_milli = max(1, round(queue.weight * 1000))
            self._own(row, queue.guarantee)
            path, place = [], index
            while place >= 0 and place not in path:
                path.append(place)
                place = parents[place]
            row.path = tuple(path)
        self._inherit(policy.queues, parents)
        for row, queue in zip(self.rows, policy.queues, strict=True):
            self._limit(row, queue)
        for index in sorted(range(len(self.rows)), key=lambda item: -len(self.rows[item].path)):
            self._settle(index)
        self.levels: Array = np.array([len(row.path) for row in self.rows], np.int64)
        longest = int(self.levels.max(initial=0))
        self.paths: Array = np.array([[*row.path, *[-1] * (longest - len(row.path))] for row in self.rows], np.int64)
        # What only another policy changes; held and claim are filled in by whoever reads the table.
        lists = [[row.entitled, row.held, row.most, row.claim, row.protected] for row in self.rows]
        self.table: Array = np.array(lists, np.int64).transpose(1, 0, 2).copy()

    def _own(self, row: QueueRow, guarantee: dict[str, int]) -> None:
        """Read what a queue owns; normalised chips are kept in thousandths."""
        counted = guarantee.get(NORMALISED, 0) > 0
        for index, kind in enumerate(self.kinds):
            row.own[index] = guarantee.get(kind, 0) * (WORTH_UNIT if kind == NORMALISED else 1)
            row.entitled[index] = UNLIMITED if counted and kind not in guarantee else row.own[index]

    def _inherit(self, queues: tuple[Queue, ...], parents: list[int]) -> None:
        """Let a parent own at least what its children own together, from the leaves upward."""
        children: dict[int, list[QueueRow]] = {}
        for row, place in zip(self.rows, parents, strict=True):
            children.setdefault(place, []).append(row)
        for place in sorted(children.keys() - {-1}, key=lambda item: -len(self.rows[item].path)):
            parent, stated = self.rows[place], queues[place].guarantee
            for kind, name in enumerate(self.kinds):
                if name not in stated:
                    parent.own[kind] = sum(row.own[kind] for row in children[place])
                    counted = any(row.entitled[kind] == UNLIMITED for row in (parent, *children[place]))
                    parent.entitled[kind] = UNLIMITED if counted else parent.own[kind]
            if NORMALISED not in stated and parent.own[-1]:
                # Some children own by kind: the sum of all kinds has room for theirs too.
                whole = sum(row.own[-1] or self._worth_of(row) for row in children[place])
                parent.own[-1] = parent.entitled[-1] = max(whole, self._worth_of(parent))

    def _limit(self, row: QueueRow, queue: Queue) -> None:
        """Read the most that a queue may hold, and what it does not lend.

        What is written for every kind holds for normalised chips where they alone decide. Without a guarantee in them
        there is no limit in them unless one is written.
        """
        for index, kind in enumerate(self.kinds):
            unit = WORTH_UNIT if kind == NORMALISED else 1
            applies = row.own[index] > 0 if kind == NORMALISED else row.entitled[index] < UNLIMITED
            wild = EVERY_KIND if applies else ""
            borrow = queue.borrow.get(kind, queue.borrow.get(wild))
            lend = queue.lend.get(kind, queue.lend.get(wild))
            if borrow is not None:
                row.most[index] = row.own[index] + borrow * unit
            row.protected[index] = 0 if lend is None else max(0, row.own[index] - lend * unit)

    def _worth_of(self, row: QueueRow) -> int:
        """Give what a queue owns by kind, in normalised thousandths."""
        return sum(count * worth for count, worth in zip(row.own, self.worth, strict=False))

    def _settle(self, index: int) -> None:
        """Work out a queue's claim at the start, when nothing is held but what is not lent."""
        row = self.rows[index]
        for kind in range(len(self.kinds)):
            row.claim[kind] = max(row.held[kind], row.protected[kind])
            above = self.rows[row.path[1]].held if len(row.path) > 1 else self.top_held
            above[kind] += row.claim[kind]

    def amounts(self, chips: dict[int, int]) -> Amounts:
        """Make amounts of chips by kind's number, with the normalised sum added."""
        worth = sum(count * self.worth[kind] for kind, count in chips.items())
        return (*sorted(chips.items()), (len(self.kinds) - 1, worth))

    def change(self, queue: int, amounts: Amounts, sign: int) -> None:
        """Count a use that begins (1) or ends (-1) in a queue and in all above it."""
        for kind, amount in amounts:
            step = sign * amount
            self.used[kind] += step
            for place in self.rows[queue].path:
                row = self.rows[place]
                row.held[kind] += step
                claim = max(row.held[kind], row.protected[kind])
                step, row.claim[kind] = claim - row.claim[kind], claim
                if not step:
                    break
            self.top_held[kind] += step

    def depth(self, queue: int, amounts: Amounts, spared: Amounts = ()) -> int:
        """Say how far up a new use is entitled: 0 in the queue's own guarantee, 1 in its parent's, and so on.

        spared: use of the same queue that would end. The count of levels means: nowhere, all of it is borrowed.
        """
        less, last = dict(spared), len(self.kinds) - 1
        path = self.rows[queue].path
        for level, place in enumerate(path):
            held, own = self.rows[place].held, self.rows[place].entitled
            for kind, amount in amounts:
                over = held[kind] + amount - (less.get(kind, 0) if less else 0) > own[kind]
                # The normalised kind decides only where it is written.
                if over and (kind != last or own[kind] > 0):
                    break
            else:
                return level
        return len(path)

    def excess(self, queue: int, amounts: Amounts, depth: int) -> Excess | None:
        """Find the first limit that a new use would break below the ancestor where it is entitled."""
        path = self.rows[queue].path
        for kind, amount in amounts:
            step = amount
            for level, place in enumerate(path):
                if level >= depth:
                    break
                row = self.rows[place]
                if row.held[kind] + step > row.most[kind]:
                    return self._excess(row.name, kind, row.held[kind], amount, row.most[kind])
                step = max(row.held[kind] + step, row.protected[kind]) - row.claim[kind]
            else:
                # Where nothing is kept from lending, the nodes themselves are the limit.
                kept = self.top_held[kind] > self.used[kind]
                if depth == len(path) and kept and self.top_held[kind] + step > self.capacity[kind]:
                    return self._excess("", kind, self.top_held[kind], amount, self.capacity[kind])
        return None

    def _excess(self, queue: str, kind: int, held: int, asked: int, allowed: int) -> Excess:
        unit = WORTH_UNIT if kind == len(self.kinds) - 1 else 1
        return Excess(
            queue=queue, kind=self.kinds[kind], held=held // unit, asked=asked // unit, allowed=allowed // unit
        )

    def room(self, queue: int, kind: int) -> int:
        """Give how much more of a kind a queue may use, were it of that kind alone; UNLIMITED where nothing forbids."""
        worth = zip(self.capacity, self.worth, strict=False)
        fits, breaks = 0, 1 + max(self.capacity[kind], sum(count * each for count, each in worth))
        if self._may_use(queue, ((kind, breaks),)):
            return UNLIMITED
        while breaks - fits > 1:
            middle = (fits + breaks) // 2
            fits, breaks = (middle, breaks) if self._may_use(queue, ((kind, middle),)) else (fits, middle)
        return fits

    def _may_use(self, queue: int, amounts: Amounts) -> bool:
        return self.excess(queue, amounts, self.depth(queue, amounts)) is None

    def never(self, queue: int, amounts: Amounts) -> Excess | None:
        """Find a limit that a use would break even if nothing else were held; None if it may be some day."""
        last, path = len(self.kinds) - 1, self.rows[queue].path
        for place in path:
            row = self.rows[place]
            if all(amount <= row.entitled[kind] or (kind == last and not row.own[kind]) for kind, amount in amounts):
                return None
            for kind, amount in amounts:
                if amount > row.most[kind]:
                    return self._excess(row.name, kind, 0, amount, row.most[kind])
        return None

    def over(self, queue: int, kind: int, spared: int = 0) -> bool:
        """Say whether a queue holds more of a kind than it owns. spared: chips of that kind that it will lose."""
        row, last = self.rows[queue], len(self.kinds) - 1
        in_all = row.held[last] - spared * self.worth[kind] > row.own[last] > 0
        return in_all or row.held[kind] - spared > row.entitled[kind]

    def count_capacity(self, chips: list[int]) -> None:
        """Take in how many chips of each kind there are in ready nodes."""
        worth = sum(count * worth for count, worth in zip(chips, self.worth, strict=True))
        self.capacity = [*chips, worth]
