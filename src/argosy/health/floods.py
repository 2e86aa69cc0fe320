"""Lines that come by the thousand and differ in digits alone: after the first few of each rank only some are looked at.

Counts the rest with what stands for them. Must not know what lines mean.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.health.clocks import Seen
from argosy.health.scanner import Hit, shape_of

# Of lines that differ in digits alone, by one rank, so many are looked at, then one of each so many more.
SAME_MAX, SAME_EACH, SHAPES_MAX, RANKS_MAX = 200, 499, 5_000, 4_096
RANK_BYTES = 96
# So many shapes are looked for in a block before it is taken apart for nothing.
SOUGHT_MAX = 8

_RANK = re.compile(rb"[Rr]ank[ =:_]?\d+|^ *\d+: |^[\w.-]+:\d+:\d+ \[\d+\]|\[(?:\d+,)?\d+\]<std")


@dataclass(slots=True, kw_only=True)
class _Ranks:
    """Lines of one shape. begin, end: where in such a line its rank stands. counts, last: by that."""

    begin: int
    end: int
    counts: dict[bytes, int] = field(default_factory=dict)
    last: dict[bytes, tuple[Seen, ...]] = field(default_factory=dict)


class Floods:
    """Remembers the shapes of lines of one log that were looked at often enough."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, _Ranks] = {}
        self._full: set[bytes] = set()
        # Of the shapes thinned out in this block, what is left is to be looked at.
        self._thinned: frozenset[bytes] = frozenset()

    def thinned(self, block: bytes) -> bytes:
        """Empty the lines of a block that need not be looked at, and count them; how many lines there are stays."""
        self._thinned = frozenset()
        if not self._full:
            return block
        shapes = shape_of(block)
        if len(self._full) <= SOUGHT_MAX and not any(shape in shapes for shape in self._full):
            return block
        lines = block.split(b"\n")
        full = self._thinned = frozenset(self._full)
        places: dict[bytes, list[int]] = {shape: [] for shape in full}
        # This loop runs for every line of a flood, so it calls nothing of ours.
        for place, shape in enumerate(shapes.split(b"\n")):
            if shape in full:
                places[shape].append(place)
        for shape, found in places.items():
            self._thin(self._shapes[shape], lines, found)
        return b"\n".join(lines)

    def _thin(self, ranks: _Ranks, lines: list[bytes], places: list[int]) -> None:
        """Empty those of the lines at some places that need not be looked at."""
        begin, end, counts = ranks.begin, ranks.end, ranks.counts
        known = Counter([lines[place][begin:end] for place in places])
        if any(counts.get(rank, 0) < SAME_MAX for rank in known):
            # A rank that joins late is looked at as often as others were.
            places = [place for place in places if counts.get(lines[place][begin:end], 0) >= SAME_MAX]
            for rank, number in known.items():
                if counts.get(rank, 0) < SAME_MAX and (rank in counts or len(counts) < RANKS_MAX):
                    counts[rank] = counts.get(rank, 0) + number
        left = places[::SAME_EACH]
        dropped = Counter([lines[place][begin:end] for place in places])
        dropped.subtract(lines[place][begin:end] for place in left)
        kept = [lines[place] for place in left]
        for place in places:
            lines[place] = b""
        for place, line in zip(left, kept, strict=True):
            lines[place] = line
        for rank, number in dropped.items():
            for one in ranks.last.get(rank, ()):
                one.repeats += number

    def passes(self, hit: Hit) -> bool:
        """Tell whether a line need not be looked at; it is counted then."""
        ranks = self._shapes.get(hit.shape)
        if ranks is None or hit.shape in self._thinned:
            return False
        rank = hit.line[ranks.begin : ranks.end]
        count = ranks.counts.get(rank, 0)
        if count < SAME_MAX or count % SAME_EACH == 0:
            return False
        ranks.counts[rank] = count + 1
        for one in ranks.last.get(rank, ()):
            one.repeats += 1
        return True

    def note(self, hit: Hit, kept: Sequence[Seen]) -> None:
        """Note a line that was looked at, and what stands for it; the next like it would say nothing new."""
        ranks = self._shapes.get(hit.shape)
        if ranks is None:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
                self._full.clear()
            found = _RANK.search(hit.line, 0, RANK_BYTES)
            begin, end = found.span() if found else (0, 0)
            ranks = self._shapes[hit.shape] = _Ranks(begin=begin, end=end)
        rank = hit.line[ranks.begin : ranks.end]
        if rank not in ranks.last and len(ranks.last) >= RANKS_MAX:
            return
        ranks.last[rank] = tuple(kept)
        if hit.shape not in self._thinned:
            count = ranks.counts[rank] = ranks.counts.get(rank, 0) + 1
            if count >= SAME_MAX:
                self._full.add(hit.shape)
