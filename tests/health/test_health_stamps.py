"""Times as programs print them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.health.stamps import Stamp, boot_times, complete, stamp_at, stamp_within

NEAR_US = round(datetime(2026, 12, 1, 3, tzinfo=UTC).timestamp() * 1_000_000)


def written(text: str, near_us: int | None = NEAR_US) -> str:
    """Read a text's time, completed, as ISO to the millisecond."""
    found = stamp_at(text)
    us = complete(found.stamp, near_us) if found else None
    return datetime.fromtimestamp((us or 0) / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


class TestStampAt:
    @pytest.mark.parametrize(
        "text",
        [
            "2026-11-30T14:02:11.208Z docker, kubectl --timestamps",
            "2026-11-30T14:02:11.208123456Z stderr F CRI",
            "2026-11-30 14:02:11,208 - Python's logging",
            "[2026-11-30 14:02:11,208] [INFO] DeepSpeed",
            "2026/11/30 14:02:11.208 nginx, Go",
            "2026-11-30T22:02:11.208+08:00 journalctl -o short-iso",
            "2026-11-30T14:02:11,208123+00:00 dmesg --time-format iso",
            "[2026-11-30T14:02:11.208] slurmctld",
            "2026-11-30-14:02:11.208.123 Ascend plog",
            "Nov 30 14:02:11.208 node-17 kernel: short-precise",
            "[Mon Nov 30 14:02:11.208 2026] dmesg -T",
            "E1130 14:02:11.208123456 4102 glog",
            "[W1130 14:02:11.208 ProcessGroupNCCL.cpp:563] c10d",
            "I20261130 14:02:11.208 4102 glog with the year",
            "[11/30 14:02:11.208 d2.utils.events]: detectron",
            "11-30 14:02:11.208 vLLM",
            "11/30/2026 14:02:11.208 - INFO",
            "20261130 14:02:11.208",
            "[1796047331.208123] [node-a:911:0] UCX",
        ],
    )
    def test_each_form_is_read(self, text: str) -> None:
        """Each way in which programs write a time gives the same instant."""
        assert written(text) == "2026-11-30 14:02:11.208"

    @pytest.mark.parametrize(
        "text",
        [
            *("Nov  3 14:02:11 node-17", "Mon Nov  3 14:02:11 UTC 2026", "03/Nov/2026:14:02:11 +0000"),
            *("Tue, 03 Nov 2026 14:02:11 GMT", "2026.11.03 14:02:11"),
        ],
    )
    def test_days_of_one_digit_and_whole_seconds(self, text: str) -> None:
        """Whole seconds and padded days are read too."""
        assert written(text) == "2026-11-03 14:02:11.000"

    @pytest.mark.parametrize(
        "text",
        [
            *("", "[rank0]: x", "Killed", "1: x", "Error 12", "60:00", "[1]", "node-a:2101:2177 [0] NCCL", "Mar 2026"),
            *("2026-13-45 14:02:11 x", "2026-02-30 14:02:11 x", "E ProcessGroup", "[E ProcessGroupNCCL.cpp:563]"),
            *("Xid 79", "25:00:00 x", "12:34", "[0000:5d:00]", "300000000000.5 x"),
        ],
    )
    def test_what_is_no_time_is_none(self, text: str) -> None:
        """Numbers that aren't times are left alone."""
        assert stamp_at(text) is None

    def test_the_kernel_counts_from_the_start(self) -> None:
        """A kernel's stamp counts from the start of the host, also with a caller's name behind it."""
        for text in ("[12345.678901] NVRM", "[12345.678901][ T1234] NVRM"):
            found = stamp_at(text)
            assert found is not None
            assert (found.stamp.kind, found.stamp.us, text[found.end :]) == ("boot", 12_345_678_901, " NVRM")

    def test_glog_keeps_its_level(self) -> None:
        """What isn't time of a glog head stays."""
        found = stamp_at("[E1130 14:02:11.2 ProcessGroupNCCL.cpp:563] x")
        assert found is not None
        assert found.keep == "[E"

    def test_a_time_in_the_middle_needs_its_date(self) -> None:
        """Deeper in a line only a whole date and time count."""
        found = stamp_within("[ERROR] HCCL(159,python3):2026-11-30-14:02:11.208.123 [hccl_socket.cc:100]")
        assert found is not None
        assert complete(found, None) == complete(Stamp(us=found.us, year=2026, month=11, day=30), None)
        assert stamp_within("elapsed 14:02:11") is None

    @given(st.text(max_size=40))
    def test_any_text_is_read_or_left(self, text: str) -> None:
        """No text makes the reader fail."""
        found = stamp_at(text)
        assert found is None or 0 < found.end <= len(text)


class TestComplete:
    def test_a_missing_year_is_the_nearest(self) -> None:
        """A stamp of December read in January is of the year before."""
        january = round(datetime(2026, 1, 2, tzinfo=UTC).timestamp() * 1_000_000)
        assert written("Dec 31 23:59:59 node-17", january).startswith("2025-12-31")

    def test_a_missing_date_is_the_nearest(self) -> None:
        """A time alone is of the day that brings it nearest, here the day before."""
        assert written("17:34:36.549 x") == "2026-11-30 17:34:36.549"
        assert written("02:34:36.549 x") == "2026-12-01 02:34:36.549"

    def test_nothing_known_is_1970(self) -> None:
        """Without anything to go by a time alone still orders lines."""
        assert written("17:34:36.549 x", None) == "1970-01-01 17:34:36.549"

    def test_the_leap_day_without_a_year_is_of_a_leap_year(self) -> None:
        """February 29 is of the only near year that has one."""
        assert written("Feb 29 10:00:00 n", round(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1e6))[:4] == "2024"

    def test_a_zone_that_is_told_wins(self) -> None:
        """Times without a zone are of the one given; those with one aren't changed."""
        plain, zoned = Stamp(us=0, year=2026, month=1, day=2), Stamp(us=0, year=2026, month=1, day=2, zone_minutes=0)
        assert (complete(zoned, None, 480) or 0) - (complete(plain, None, 480) or 0) == 8 * 3600 * 1_000_000

    def test_a_kernels_time_needs_the_start(self) -> None:
        """A time since the start is None until somebody tells when that was."""
        stamp = Stamp(us=5, kind="boot")
        assert (complete(stamp, NEAR_US), complete(stamp, None, booted_us=100)) == (None, 105)


class TestBootTimes:
    def test_the_kernel_tells_when_it_started(self) -> None:
        """Audit records and the setting of the clock carry both times."""
        lines = [
            (500_000, "audit: type=2000 audit(1796047200.500:1): state=initialized"),
            (1_000_000, "rtc_cmos 00:01: setting system clock to 2026-11-30T14:00:01 UTC (1796047201)"),
            (2_000_000, "NVRM: loading"),
        ]
        assert list(boot_times(iter(lines))) == [1_796_047_200_000_000] * 2
