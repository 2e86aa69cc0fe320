"""Deal a global batch's micro-batches to replicas so that the last one finishes as early as possible.

Exact for replicas whose time is fill + (micro-batches - 1) x pace. Must not know why a replica is fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

BISECTIONS = 200  # halvings of an interval of floats: far more than its bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Like replicas. pace_ms: time from one micro-batch to the next. fill_ms: time of the first, through all stages.

    count: how many there are. at_most: micro-batches that one may take.
    """

    pace_ms: float
    fill_ms: float
    count: int
    at_most: int = 1_000_000_000

    def finish_ms(self, microbatches: int) -> float:
        """Tell when a replica has finished so many micro-batches."""
        return self.fill_ms + (microbatches - 1) * self.pace_ms if microbatches else 0.0

    def finished(self, time_ms: float) -> int:
        """Count the micro-batches that one replica finishes by a time."""
        if time_ms < self.fill_ms:
            return 0
        if self.pace_ms <= 0:
            return self.at_most
        return min(self.at_most, math.floor((time_ms - self.fill_ms) / self.pace_ms + 1e-9) + 1)


def deal(kinds: Sequence[Kind], microbatches: int) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Deal micro-batches; answers for each kind (micro-batches, how many replicas take so many), most first.

    Replicas that would only slow the rest down get none and are left out. None if at_most forbids it.

    >>> deal([Kind(pace_ms=1, fill_ms=1, count=1), Kind(pace_ms=3, fill_ms=3, count=1)], 8)
    (((6, 1),), ((2, 1),))
    """
    if sum(kind.count * kind.at_most for kind in kinds) < microbatches:
        return None
    time_ms = least_time(kinds, microbatches)
    takes = [kind.finished(time_ms) for kind in kinds]
    surplus = sum(take * kind.count for take, kind in zip(takes, kinds, strict=True)) - microbatches
    dealt: dict[int, tuple[tuple[int, int], ...]] = {}
    # At the least time more may be done than asked for; those who would finish last take one fewer.
    for index in sorted(range(len(kinds)), key=lambda i: -kinds[i].finish_ms(takes[i])):
        take, count = takes[index], kinds[index].count
        fewer = min(surplus, count) if take else 0
        surplus -= fewer
        dealt[index] = tuple((m, n) for m, n in ((take, count - fewer), (take - 1, fewer)) if m > 0 and n > 0)
    return tuple(dealt[index] for index in range(len(kinds)))


def least_time(kinds: Sequence[Kind], microbatches: int) -> float:
    """Find the least time in which all replicas together finish so many micro-batches."""
    low, high = 0.0, 1.0
    while sum(kind.count * kind.finished(high) for kind in kinds) < microbatches:
        low, high = high, high * 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if sum(kind.count * kind.finished(middle) for kind in kinds) >= microbatches:
            high = middle
        else:
            low = middle
    return high
