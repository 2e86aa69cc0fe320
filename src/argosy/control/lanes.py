"""One row of numbers for each group of waiting jobs, kept as jobs come and go, so that a pass reads arrays.

A group keeps its row while it lives; a row is used again only after the pass in which its group died. Must not know
what a queue may have, nor what is free.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]
GroupKey = tuple[int, int, int, str]
"""Waiting jobs that are alike: queue's number, shape, time limit (FOREVER for none), own id where a job is special."""

QUEUE, SHAPE, LIMIT, HOLDS, READY, PRIORITY, NUMBER, TIER, LINED, CODE, CLOSED = range(11)
"""Columns. QUEUE: -1 of a dead row; HOLDS: nodes are held for it; READY: it does not start before, in microseconds;
PRIORITY: negated, and NUMBER, of the group's first job.

Those of the pass that runs. TIER: levels it must borrow from; LINED: it stands in line; CODE: 0 unseen, 1 blocked, more
as the pass notes it; CLOSED: how many pools its strict queue had closed then.
"""
COLUMNS = 11
ROWS_FIRST = 64
"""For how many groups there are rows at first; twice as many whenever they are used up."""
UNSEEN, SEEN = 0, 1


class Lanes:
    """The rows of all groups of waiting jobs. keys: the group of each row, also of a dead one."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all groups."""
        self.table: Array = np.zeros((ROWS_FIRST, COLUMNS), np.int64)
        self.table[:, QUEUE] = -1
        self.keys: list[GroupKey] = []
        self.row: dict[GroupKey, int] = {}
        self._free: list[int] = []
        self._dead: list[int] = []

    def add(self, key: GroupKey, holds: bool, ready_us: int) -> None:
        """Give a group its row, unless it has one."""
        if key not in self.row:
            row = self._take(key)
            self.table[row, HOLDS], self.table[row, READY] = holds, ready_us

    def set_first(self, key: GroupKey, priority: int, number: int) -> None:
        """Note a group's first job."""
        row = self.row[key]
        self.table[row, PRIORITY], self.table[row, NUMBER] = priority, number

    def drop(self, key: GroupKey) -> None:
        """Strike out a group that has no job left."""
        row = self.row.pop(key)
        self.table[row, QUEUE] = -1
        self._dead.append(row)

    def begin_pass(self) -> Array:
        """Make rows of dead groups free again, forget the last pass, and list the rows of all groups."""
        self._free += self._dead
        self._dead = []
        used = self.table[: len(self.keys)]
        used[:, TIER:] = 0
        return np.flatnonzero(used[:, QUEUE] >= 0)

    def _take(self, key: GroupKey) -> int:
        """Give a new group its row."""
        if self._free:
            row = self._free.pop()
            self.keys[row] = key
        else:
            row = len(self.keys)
            self.keys.append(key)
            if row == len(self.table):
                more = np.zeros_like(self.table)
                more[:, QUEUE] = -1
                self.table = np.concatenate([self.table, more])
        self.table[row] = 0
        self.table[row, QUEUE], self.table[row, SHAPE], self.table[row, LIMIT] = key[:3]
        self.row[key] = row
        return row
