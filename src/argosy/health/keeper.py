"""Keeps what was seen in all logs of a job, bounded, and in the end puts it on one clock.

Must not know how lines are found, nor what they prove.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.health.clocks import Clocks, Offset, Seen, settle
from argosy.health.roster import Roster
from argosy.health.sightings import Sighting
from argosy.health.zones import moved, zone_between

# Of sightings alike this many are kept; a signature may have so many that differ, and all together so many.
ALIKE_MAX, DIFFERENT_MAX, KEPT_MAX = 4, 120_000, 300_000
# Fields that differ from line to line without saying anything about who or what.
PASSING_FIELDS = frozenset(
    {"size", "elapsed", "sequence", "step", "time", "pid", "tid", "seconds", "count", "saved", "last"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What logs gave. offsets: how far clocks are apart, as far as that can be told. dropped: sightings not kept."""

    sightings: tuple[Sighting, ...]
    offsets: tuple[Offset, ...] = ()
    dropped: int = 0


class Keeper:
    """Keeps what was seen, bounded: of sightings alike the first few and the newest, the rest as a count."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.clocks, self.roster = Clocks(), Roster()
        self.dropped = 0
        self._alike: dict[tuple[object, ...], list[int]] = {}
        self._different: dict[str, int] = {}

    def keep(self, seen: Seen) -> Seen:
        """Keep one, or count it with the last one like it; gives the one that stands for it."""
        key = _likeness(seen)
        places = self._alike.get(key)
        if places is None:
            different = self._different.get(seen.signature.name, 0)
            if different >= DIFFERENT_MAX or len(self.seen) >= KEPT_MAX:
                self.dropped += 1
                return seen
            self._different[seen.signature.name] = different + 1
            places = self._alike[key] = []
        if len(places) < ALIKE_MAX and len(self.seen) < KEPT_MAX:
            places.append(len(self.seen))
            self.seen.append(seen)
            return seen
        # The newest tells whether the job lived on after all of them.
        last = self.seen[places[-1]]
        last.repeats += 1
        last.line, last.stamp, last.fields = seen.line, seen.stamp, seen.fields
        return last

    def settled(self, near_us: int | None = None, zone_minutes: int | None = None) -> Taken:
        """Give every sighting its time on one clock.

        near_us: for logs that tell no year or date. zone_minutes: of times that name no zone, where somebody knows.
        """
        sightings, offsets = settle(self.seen, self.clocks, near_us, zone_minutes or 0)
        if zone_minutes is None:
            zoned = [one.stamp is not None and one.stamp.zoned for one in self.seen]
            zone = zone_between(sightings, zoned)
            sightings, offsets = (moved(sightings, zone), (zone, *offsets)) if zone else (sightings, offsets)
        lines = self.roster.filled(one.line for one in sightings)
        sightings = tuple(replace(one, line=line) for one, line in zip(sightings, lines, strict=True))
        return Taken(sightings=sightings, offsets=offsets, dropped=self.dropped)


def _likeness(seen: Seen) -> tuple[object, ...]:
    """Tell what makes two sightings alike: signature, who printed, and what the pattern named."""
    line = seen.line
    who: Sequence[object] = (
        (line.rank, line.local_rank, line.host) if line.rank is not None or line.host else (line.source,)
    )
    fields = tuple(sorted(item for item in seen.fields.items() if item[0] not in PASSING_FIELDS))
    return (seen.signature.name, *who, fields)
