"""Kernel logs and ranks' logs in two time zones."""

import pytest

from argosy.health.zones import KERNEL, RANKS
from support.sightings import make_signature, taken_by

HOUR_US = 3_600_000_000
XID = make_signature("xid", r"Xid \(PCI:(?P<chip>[\w:.]+)\)", "Xid", layer="driver")
CUDA = make_signature("cuda", "CUDA error", layer="runtime")
KERNEL_LINE = "[Mon Nov 30 {at} 2026] NVRM: Xid (PCI:0000:5d:00): 94\n"
RANK_LINE = "2026-11-30{zone_t}{at}{zone} CUDA error\n"


def settled(kernel: str, rank: str, zone: str = "", zone_minutes: int | None = None) -> tuple[int, list[object]]:
    """Give how long after the kernel the rank spoke, in seconds, and the clocks that were found apart."""
    logs = (
        ("dmesg-node-1.txt", KERNEL_LINE.format(at=kernel)),
        ("rank_0.log", RANK_LINE.format(at=rank, zone=zone, zone_t="T" if zone else " ")),
    )
    result = taken_by((XID, CUDA), *logs, zone_minutes=zone_minutes)
    first, second = (one.at_us or 0 for one in result.sightings)
    return (second - first) // 1_000_000, [(offset.clock, offset.offset_us) for offset in result.offsets]


class TestZones:
    @pytest.mark.parametrize(("rank", "hours"), [("06:02:12", 8), ("19:32:12", -5.5), ("13:02:12", 1)])
    def test_logs_that_fit_at_one_whole_difference_are_moved(self, rank: str, hours: float) -> None:
        """A container in UTC on a host in local time: the kernel's fault comes right before the rank's again."""
        assert settled("14:02:11", rank) == (1, [(KERNEL, hours * HOUR_US)])

    def test_times_that_name_their_zone_stay(self) -> None:
        """Of two, the one that names its zone is right."""
        assert settled("14:02:11", "06:02:12", "Z") == (1, [(KERNEL, 8 * HOUR_US)])
        kernel = ("dmesg-node-1.txt", "2026-11-30T14:02:11+00:00 NVRM: Xid (PCI:0000:5d:00): 94\n")
        result = taken_by((XID, CUDA), kernel, ("rank_0.log", RANK_LINE.format(at="22:02:12", zone="", zone_t=" ")))
        assert [(offset.clock, offset.offset_us) for offset in result.offsets] == [(RANKS, 8 * HOUR_US)]

    @pytest.mark.parametrize("rank", ["14:02:12", "14:32:12", "14:58:00", "20:15:00", "13:55:00"])
    def test_logs_that_fit_or_fit_nowhere_are_left_alone(self, rank: str) -> None:
        """What follows within a time-out fits as it stands; what fits at no whole difference has its own cause."""
        assert settled("14:02:11", rank)[1] == []

    def test_who_knows_the_zone_is_believed(self) -> None:
        """With a zone given nothing is guessed."""
        assert settled("14:02:11", "06:02:12", zone_minutes=0) == (-28_799, [])

    def test_ambiguity_is_no_answer(self) -> None:
        """Faults that fit at two differences tell neither."""
        logs = [("dmesg-node-1.txt", KERNEL_LINE.format(at="14:02:11"))]
        logs += [
            (f"rank_{n}.log", RANK_LINE.format(at=at, zone="", zone_t=" "))
            for n, at in enumerate(("06:02:12", "20:02:12"))
        ]
        assert taken_by((XID, CUDA), *logs).offsets == ()
