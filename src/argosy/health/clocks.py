"""One clock for all that was seen: missing years and dates completed, hosts' clocks compared, each difference stated.

Hosts whose ranks print the same step, or wait in the same collective, did so together; how far their times are apart
tells how far their clocks are. Must not know how lines are read, nor what they mean.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from argosy.health.lines import Line
from argosy.health.sightings import Sighting
from argosy.health.signature import Signature
from argosy.health.stamps import SECOND_US, Stamp, complete

SHARED_MIN, CLOCKS_MAX = 3, 2_000
# A watchdog looks now and then, so what it says tells only large differences.
SEQUENCE_SPREAD_US = 10 * SECOND_US


@dataclass(slots=True, kw_only=True)
class Seen:
    """A line that matched a signature, before its time is known on the common clock."""

    line: Line
    signature: Signature
    fields: Mapping[str, str]
    stamp: Stamp | None
    repeats: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Something that happened everywhere at once: key: what; clock: the host, or the source that names none."""

    key: tuple[str, ...]
    stamp: Stamp
    clock: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far one clock is ahead of another.

    offset_us: below 0 where it is behind. spread_us: how far single comparisons lie from it, in the median. shared: how
    many there were. corrected: whether it was large enough to be taken off.
    """

    clock: str
    reference: str
    offset_us: int
    spread_us: int
    shared: int
    corrected: bool


@dataclass(slots=True, kw_only=True)
class Clocks:
    """What tells about clocks: anchors, counted by clock; when hosts started.

    booted: as hosts' kernels told it. boots: pairs of a time and that since the start, from lines that carry both.
    """

    anchors: list[Anchor] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    booted: dict[str, list[int]] = field(default_factory=dict)
    boots: dict[str, list[tuple[Stamp, int]]] = field(default_factory=dict)


def settle(
    seen: Sequence[Seen], clocks: Clocks, near_us: int | None, zone_minutes: int
) -> tuple[tuple[Sighting, ...], tuple[Offset, ...]]:
    """Give every sighting its time on the reference clock, and say how far the clocks are apart."""
    near = _Nearness(seen, clocks, near_us, zone_minutes)
    booted = {host: round(median(times)) for host, times in clocks.booted.items() if times}
    for host, pairs in clocks.boots.items():
        wall = [us - since for stamp, since in pairs if (us := near.time_us(stamp, host)) is not None]
        if wall and host not in booted:
            booted[host] = round(median(wall))
    offsets = compare(
        (clock_name(anchor.clock, anchor.stamp), anchor.key, us)
        for anchor in clocks.anchors
        if (us := near.time_us(anchor.stamp, anchor.clock)) is not None
    )
    ahead = {offset.clock: offset.offset_us for offset in offsets if offset.corrected}
    sightings = []
    for one in seen:
        clock = one.line.host or one.line.source
        named = clock if one.stamp is None else clock_name(clock, one.stamp)
        us = None if one.stamp is None else near.time_us(one.stamp, one.line.source, booted.get(clock))
        since = one.stamp.us if us is None and one.stamp is not None else us
        sightings.append(
            Sighting(
                line=replace(one.line, at_us=since, booted=us is None and since is not None),
                signature=one.signature,
                fields=one.fields,
                at_us=None if us is None else us - ahead.get(named, 0),
                repeats=one.repeats,
            )
        )
    return tuple(sightings), offsets


def clock_name(name: str, stamp: Stamp) -> str:
    """Name the clock of a host or source: times that tell their zone are kept apart from those that don't."""
    return f"{name} (with zone)" if stamp.zoned else name


class _Nearness:
    """Completes stamps by what the same source, else all sources, say elsewhere."""

    def __init__(self, seen: Sequence[Seen], clocks: Clocks, near_us: int | None, zone_minutes: int) -> None:
        self._zone = zone_minutes
        stamps = [(one.line.source, one.stamp) for one in seen if one.stamp is not None]
        stamps += [(anchor.clock, anchor.stamp) for anchor in clocks.anchors]
        self._by_source: dict[str, int] = {}
        self._all = near_us
        # What lacks its year alone tells the date to what lacks both, unless something has all of it.
        whole = [(source, stamp) for source, stamp in stamps if stamp.year is not None or stamp.kind == "epoch"]
        self._learn(whole or [(source, stamp) for source, stamp in stamps if stamp.month is not None])

    def _learn(self, stamps: Iterable[tuple[str, Stamp]]) -> None:
        times: dict[str, list[int]] = defaultdict(list)
        for source, stamp in stamps:
            us = self.time_us(stamp, source)
            if us is not None:
                times[source].append(us)
        if times:
            self._all = round(median(us for found in times.values() for us in found))
        self._by_source = {source: round(median(found)) for source, found in times.items()}

    def time_us(self, stamp: Stamp, source: str, booted_us: int | None = None) -> int | None:
        return complete(stamp, self._by_source.get(source, self._all), self._zone, booted_us)


def compare(times: Iterable[tuple[str, tuple[str, ...], int]]) -> tuple[Offset, ...]:
    """Compare clocks by what they saw together: clock, what, and when by that clock.

    The clock that saw most is the reference; one that shares nothing with it is compared by way of others.
    """
    by_clock: dict[str, dict[tuple[str, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for clock, key, us in times:
        if clock in by_clock or len(by_clock) < CLOCKS_MAX:
            by_clock[clock][key].append(us)
    middles = {clock: {key: round(median(found)) for key, found in keys.items()} for clock, keys in by_clock.items()}
    waiting = sorted(middles, key=lambda clock: (-len(middles[clock]), clock))
    if len(waiting) < 2:
        return ()
    reference = waiting.pop(0)
    told, offsets = dict(middles[reference]), []
    progress = True
    while progress:
        progress = False
        for clock in tuple(waiting):
            offset = _apart(clock, reference, middles[clock], told)
            if offset is not None:
                offsets.append(offset)
                waiting.remove(clock)
                told |= {key: us - offset.offset_us for key, us in middles[clock].items() if key not in told}
                progress = True
    return tuple(offsets)


def _apart(
    clock: str, reference: str, mine: Mapping[tuple[str, ...], int], told: Mapping[tuple[str, ...], int]
) -> Offset | None:
    """Compare a clock with what is told by the reference; None where they share too little."""
    keys = mine.keys() & told.keys()
    steps = [key for key in keys if key[0] == "step"]
    kept = steps if len(steps) >= SHARED_MIN else [key for key in keys if key[0] == "sequence"]
    if not kept:
        return None
    apart = [mine[key] - told[key] for key in kept]
    offset_us = round(median(apart))
    spread = median(abs(one - offset_us) for one in apart)
    spread_us = round(max(spread, 0 if kept is steps else SEQUENCE_SPREAD_US))
    return Offset(
        clock=clock,
        reference=reference,
        offset_us=offset_us,
        spread_us=spread_us,
        shared=len(kept),
        corrected=_matters(offset_us, spread_us),
    )


def _matters(offset_us: int, spread_us: int) -> bool:
    """Tell whether a difference is more than chance: three times the spread, and more than ranks' own haste."""
    return abs(offset_us) > max(3 * spread_us, SECOND_US // 20)
