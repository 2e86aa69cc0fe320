"""Deal a global batch's micro-batches to replicas so that the last one finishes as early as possible.

Exact for replicas whose time is fill + (micro-batches - 1) x pace and whose rounds are of like size. Must not know why
a replica is fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

BISECTIONS = 200  # halvings of an interval of floats: far more than its bits
ROUNDING = 1e-9  # of a micro-batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Like replicas. pace_ms: time from one micro-batch to the next. fill_ms: time of the first, through all stages.

    count: how many there are. sequences: of one micro-batch. Of micro-batches one replica takes none, or from at_least
    to at_most, in a multiple. round_of: micro-batches that make a round; as many rounds as there are must go into their
    number. 0: no matter.
    """

    pace_ms: float
    fill_ms: float
    count: int
    sequences: int = 1
    at_least: int = 1
    at_most: int = 1_000_000_000
    multiple: int = 1
    round_of: int = 0

    def finish_ms(self, microbatches: int) -> float:
        """Tell when a replica has finished so many micro-batches."""
        return self.fill_ms + (microbatches - 1) * self.pace_ms if microbatches else 0.0

    def finished(self, time_ms: float) -> int:
        """Count the micro-batches that one replica finishes by a time."""
        if time_ms < self.fill_ms:
            return 0
        if self.pace_ms <= 0:
            return self.allowed(self.at_most)
        return self.allowed(math.floor((time_ms - self.fill_ms) / self.pace_ms + ROUNDING) + 1)

    def allowed(self, most: int) -> int:
        """Give the most micro-batches that one replica may take, at most so many; 0 for none."""
        done = min(most, self.at_most)
        if self.round_of and done >= self.round_of:
            done -= done % (done // self.round_of)
        done -= done % self.multiple
        return done if done >= self.at_least else 0


def deal(kinds: Sequence[Kind], batch: int) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Deal a batch of sequences; answers for each kind (micro-batches, how many replicas take so many), most first.

    Replicas that would only slow the rest down get none and are left out. None if the kinds' limits forbid it, or if
    their rounds don't add up to the batch.

    >>> deal([Kind(pace_ms=1, fill_ms=1, count=1), Kind(pace_ms=3, fill_ms=3, count=1)], 8)
    (((6, 1),), ((2, 1),))
    """
    if sum(kind.count * kind.at_most * kind.sequences for kind in kinds) < batch:
        return None
    time_ms = least_time(kinds, batch)
    takes = [kind.finished(time_ms) for kind in kinds]
    surplus = sum(t * kind.count * kind.sequences for t, kind in zip(takes, kinds, strict=True)) - batch
    rows: list[tuple[tuple[int, int], ...]] = [((take, kind.count),) for take, kind in zip(takes, kinds, strict=True)]
    # At the least time more may be done than asked for; of large rounds first, those who would finish last take fewer.
    order = sorted(range(len(kinds)), key=lambda i: (-kinds[i].sequences, -kinds[i].finish_ms(takes[i])))
    for index in order:
        rows[index], surplus = lightened(kinds[index], takes[index], surplus)
    if surplus:
        return None
    return tuple(tuple((m, n) for m, n in row if m > 0 and n > 0) for row in rows)


def lightened(kind: Kind, take: int, surplus: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Take micro-batches from replicas of a kind, evenly, as far as they go into a surplus of sequences.

    Answers (micro-batches, replicas) and what is left of it. Replicas that would get too few to run go without.
    """
    while take and surplus:
        less = kind.allowed(take - 1)
        step = (take - less) * kind.sequences
        fewer = min(kind.count, surplus // step)
        surplus -= fewer * step
        if fewer < kind.count:
            return ((take, kind.count - fewer), (less, fewer)), surplus
        take = less
    return ((take, kind.count),), surplus


def least_time(kinds: Sequence[Kind], batch: int) -> float:
    """Find the least time in which all replicas together finish so many sequences."""
    low, high = 0.0, 1.0
    while sum(kind.count * kind.sequences * kind.finished(high) for kind in kinds) < batch:
        low, high = high, high * 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if sum(kind.count * kind.sequences * kind.finished(middle) for kind in kinds) >= batch:
            high = middle
        else:
            low = middle
    return high
