"""One clock for many hosts."""

import pytest

from argosy.health.clocks import compare
from argosy.health.steps import PROGRESSED
from support.sightings import taken

SECOND_US = 1_000_000
XID = "kernel: NVRM: Xid (PCI:0000:5d:00): 79, x"


def steps(shift_s: float = 0.0, count: int = 40, step: str = "step") -> str:
    """Print steps of ten seconds, by a clock that is ahead."""
    lines = []
    for number in range(count):
        at_ms = round((14 * 3600 + number * 10 + shift_s) * 1000)
        clock = f"{at_ms // 3_600_000:02d}:{at_ms // 60_000 % 60:02d}:{at_ms // 1000 % 60:02d},{at_ms % 1000:03d}"
        lines.append(f"2026-11-30 {clock} {step} {number} loss 2.3\n")
    return "".join(lines)


class TestSettle:
    @pytest.mark.parametrize("shift_s", [3.25, -120.0, 8 * 3600.0])
    def test_a_clock_that_is_ahead_is_found_and_corrected(self, shift_s: float) -> None:
        """Steps that two hosts printed tell how far their clocks are apart, and times are set right."""
        result = taken(
            ("node-a/rank_0.log", steps() + "2026-11-30 14:06:40 CUDA out of memory\n"),
            (
                "node-b/rank_8.log",
                steps(shift_s, 39) + steps(shift_s, 1).replace("step 0 loss 2.3", "CUDA out of memory"),
            ),
        )
        (offset,) = result.offsets
        assert (offset.clock, offset.reference, offset.corrected) == ("node-b", "node-a", True)
        assert offset.offset_us == pytest.approx(shift_s * SECOND_US, abs=1_000)
        first, second = (one.at_us or 0 for one in result.sightings if one.signature != PROGRESSED)
        assert first - second == pytest.approx(400 * SECOND_US, abs=1_000)

    def test_the_log_of_a_host_with_no_steps_follows_its_host(self) -> None:
        """What is known of a host's clock by its ranks holds for its kernel's log too."""
        result = taken(
            ("node-a/rank_0.log", steps()),
            ("node-b/rank_8.log", steps(60.0)),
            ("dmesg-node-b.txt", f"[Mon Nov 30 14:07:40 2026] {XID}\n"),
        )
        assert result.sightings[-1].at_us == 1_796_047_600_000_000

    def test_clocks_that_agree_are_left_alone(self) -> None:
        """Differences within the ranks' own spread are stated and not corrected."""
        (offset,) = taken(("node-a/r.log", steps()), ("node-b/r.log", steps(0.01))).offsets
        assert (offset.offset_us, offset.corrected) == (10_000, False)

    def test_a_time_out_tells_only_large_differences(self) -> None:
        """Members of a collective began it together: a watchdog's word is enough for hours, not for seconds."""
        line = (
            "2026-11-30 {at} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType"
            "=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for {ms} milliseconds before timing out.\n"
        )
        logs = [("node-a/0.log", line.format(at="14:10:00", rank=0, ms=600_000))]
        logs += [("node-b/1.log", line.format(at="22:10:01", rank=1, ms=601_000))]
        logs += [("node-c/2.log", line.format(at="14:10:04", rank=2, ms=600_000))]
        offsets = {offset.clock: offset for offset in taken(*logs).offsets}
        assert (offsets["node-b"].offset_us, offsets["node-b"].corrected) == (8 * 3600 * SECOND_US, True)
        assert not offsets["node-c"].corrected

    def test_the_kernels_clock_needs_one_line_that_tells_both(self) -> None:
        """Times since the start become times of day by an audit record; without one they stay as they are."""
        head = "[    0.500000] audit: type=2000 audit(1796047200.500:1): state=initialized\n"
        log = f"[  331.208000] {XID}\n"
        with_, without = (taken(("dmesg-node-b.txt", text)).sightings[0] for text in (head + log, log))
        assert (with_.at_us, with_.line.booted) == (1_796_047_531_208_000, False)
        assert (without.at_us, without.line.at_us, without.line.booted) == (None, 331_208_000, True)

    def test_syslog_tells_the_start_of_its_host(self) -> None:
        """A syslog line that carries the kernel's time as well dates that host's dmesg."""
        result = taken(
            ("syslog", f"2026-11-30T14:02:11Z node-b kernel: [  331.000000] {XID[8:]}\n"),
            ("dmesg-node-b.txt", f"[  332.000000] {XID}\n"),
        )
        assert (result.sightings[1].at_us or 0) - (result.sightings[0].at_us or 0) == SECOND_US

    def test_years_and_dates_come_from_elsewhere(self) -> None:
        """A log without years takes it from one that has it, one without dates from both, else from what is given."""
        logs = (
            ("a", "2024-03-01T10:00:00Z CUDA out of memory\n"),
            ("b", "Mar  1 10:00:01 node-b CUDA out of memory\n"),
            ("c", "10:00:02 CUDA out of memory\n"),
        )
        times = [one.at_us or 0 for one in taken(*logs).sightings]
        assert [time - times[0] for time in times] == [0, SECOND_US, 2 * SECOND_US]
        alone = [one.at_us for one in taken(*logs[1:], near_us=times[0]).sightings]
        assert alone == times[1:]

    def test_zones(self) -> None:
        """Times without a zone are of the zone that is told."""
        logs = ("a", "2026-11-30 22:00:00 CUDA out of memory\n"), ("b", "2026-11-30T14:00:00Z CUDA out of memory\n")
        first, second = taken(*logs, zone_minutes=480).sightings
        assert first.at_us == second.at_us


class TestCompare:
    def test_hosts_that_never_met_are_compared_by_a_third(self) -> None:
        """What two clocks don't share, others may tell."""
        times = [("a", ("step", str(n)), n * SECOND_US) for n in range(10)]
        times += [("b", ("step", str(n)), n * SECOND_US + 5 * SECOND_US) for n in range(6, 14)]
        times += [("c", ("step", str(n)), n * SECOND_US - 7 * SECOND_US) for n in range(10, 14)]
        assert {offset.clock: offset.offset_us for offset in compare(times)} == {
            "b": 5 * SECOND_US,
            "c": -7 * SECOND_US,
        }

    def test_few_or_none_shared_say_nothing(self) -> None:
        """Two shared steps may be chance."""
        assert compare([("a", ("step", "1"), 0), ("b", ("step", "1"), 9 * SECOND_US), ("c", ("step", "2"), 0)]) == ()
        assert compare([]) == ()
