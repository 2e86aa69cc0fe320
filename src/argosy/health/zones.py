"""Kernel logs and ranks' logs in two time zones: found by faults that fit together at one whole difference only.

A container counts in UTC where its host counts in local time, and neither says so. A kernel's fault shows in the ranks'
logs within seconds; if nothing fits as the times stand, and at just one difference of whole half hours something does,
that is the difference. Must not know how times are read.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.health.clocks import Offset
from argosy.health.sightings import Sighting
from argosy.health.stamps import MINUTE_US, SECOND_US

HALF_HOUR_US = 30 * MINUTE_US
HALF_HOURS_MAX = 28
KERNEL_LAYERS = ("kernel", "driver")
KERNEL, RANKS = "kernel logs", "the ranks' logs"
# A rank reports what the kernel saw so soon; what it waits for it reports within a collective's time-out.
SOON_US, LATE_US = (-5 * SECOND_US, 60 * SECOND_US), (-10 * MINUTE_US, 70 * MINUTE_US)
EVENTS_MAX = 1_000
FITTING_MIN, AT_ONCE_US = 2, (-5 * SECOND_US, 5 * SECOND_US)
"""One event that fits may be chance, unless it fits closely."""


def zone_between(sightings: Sequence[Sighting], zoned: Sequence[bool]) -> Offset | None:
    """Find the zone that kernel logs are ahead of the ranks'; None where they fit, or nothing tells.

    zoned: for each sighting whether its time names a zone. Where all of both do there is nothing to find.
    """
    kernel: list[int] = []
    ranks: list[int] = []
    fixed = {KERNEL: False, RANKS: False}
    for one, has_zone in zip(sightings, zoned, strict=True):
        if one.at_us is None or one.signature.role not in ("cause", "symptom"):
            continue
        own = one.signature.layer in KERNEL_LAYERS
        if own and one.signature.role != "cause":
            continue
        (kernel if own else ranks).append(one.at_us)
        fixed[KERNEL if own else RANKS] |= has_zone
    if not kernel or not ranks or all(fixed.values()):
        return None
    kernel, ranks = sorted(set(kernel))[:EVENTS_MAX], sorted(set(ranks))
    if _fitting(kernel, ranks, 0, LATE_US):
        return None
    shifts = [count * HALF_HOUR_US for count in range(-HALF_HOURS_MAX, HALF_HOURS_MAX + 1) if count]
    fits = {shift: found for shift in shifts if (found := _fitting(kernel, ranks, shift, SOON_US))}
    if len(fits) != 1:
        return None
    ((shift, found),) = fits.items()
    if found < FITTING_MIN and not _fitting(kernel, ranks, shift, AT_ONCE_US):
        return None
    clock, reference, ahead = (RANKS, KERNEL, -shift) if fixed[KERNEL] else (KERNEL, RANKS, shift)
    return Offset(clock=clock, reference=reference, offset_us=ahead, spread_us=SOON_US[1], shared=found, corrected=True)


def moved(sightings: Iterable[Sighting], offset: Offset) -> tuple[Sighting, ...]:
    """Take a zone off the times of the logs that it is of."""
    return tuple(
        replace(one, at_us=one.at_us - offset.offset_us)
        if one.at_us is not None and (one.signature.layer in KERNEL_LAYERS) == (offset.clock == KERNEL)
        else one
        for one in sightings
    )


def _fitting(kernel: Sequence[int], ranks: Sequence[int], shift: int, within: tuple[int, int]) -> int:
    """Count the kernel's events, moved back by `shift`, that a rank's event follows within those times."""
    count = 0
    for us in kernel:
        place = bisect_left(ranks, us - shift + within[0])
        count += place < len(ranks) and ranks[place] <= us - shift + within[1]
    return count
