"""Times as programs print them at the start of a line: read in part, completed when more is known.

A stamp may lack its year (syslog, glog), its date, its zone, or count from the host's start (dmesg). Must not know
which file a line comes from, nor what it says.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

SECOND_US, MINUTE_US, DAY_US = 1_000_000, 60_000_000, 86_400_000_000
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WITHIN_CHARS = 120
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_MONTH = rf"(?P<mon>{'|'.join(MONTHS)})"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +)?"
_NUMBERS = r"(?P<mo>0[1-9]|1[0-2]){sep}(?P<d>0[1-9]|[12]\d|3[01])"
# Ascend writes milliseconds and microseconds apart: 14:02:11.208.123.
_TIME = r"(?P<h>[01]\d|2[0-3]):(?P<mi>[0-5]\d):(?P<s>[0-5]\d|60)(?:[.,](?P<f>\d{1,9})(?:\.(?P<g>\d{3}))?)?"
_ZONE = r"(?:\s?(?P<z>Z|UTC|GMT|[+-](?:0\d|1[0-4]):?[0-5]\d)(?![\w:]))?"
_YEAR = r"(?P<y>19[7-9]\d|20\d\d)"

_ISO = re.compile(rf"\[?{_YEAR}[-/.]{_NUMBERS.format(sep='[-/.]')}[T _-]+{_TIME}{_ZONE}\]?")
_BY_DIGIT = (
    _ISO,
    re.compile(rf"\[?{_YEAR}{_NUMBERS.format(sep='')}[-T _]{_TIME}{_ZONE}\]?"),
    re.compile(rf"\[?{_NUMBERS.format(sep='[-/]')}(?:/{_YEAR})? +{_TIME}\]?"),
    re.compile(rf"\[?(?P<d>\d{{1,2}})[/ -]{_MONTH}[/ -]{_YEAR}[: ]{_TIME}{_ZONE}\]?"),
    re.compile(r"\[ *(?P<boot>\d{1,10}\.\d{3,9})\](?: ?\[ *[TC]\d+\])?"),
    re.compile(r"\[?(?P<boot>1\d{9}\.\d{3,9})\]?(?=\s|$)"),
    re.compile(rf"\[?{_TIME}\]?(?=[\s|:,-]|$)"),
)
_BY_LETTER = (
    # torch writes the month without its zero: E304 is the 4th of March.
    re.compile(rf"(?P<keep>\[?[IWEFVC]){_YEAR}?(?P<mo>0?[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01]) +{_TIME}"),
    re.compile(rf"\[?{_WEEKDAY}{_MONTH} +(?P<d>\d{{1,2}}) (?:{_YEAR} )?{_TIME}{_ZONE}(?: [A-Z]{{3,4}}(?= \d))?"
               r"(?: (?P<y2>20\d\d)(?!\d))?\]?"),
    re.compile(rf"\[?{_WEEKDAY}(?P<d>\d{{1,2}}) {_MONTH} {_YEAR} {_TIME}{_ZONE}\]?"),
)  # fmt: skip
# Linux writes both into the kernel log now and then; either tells when the host was started.
_AUDIT = re.compile(r"audit\((?P<epoch>1\d{9}\.\d{3}):\d+\)")
_CLOCK_SET = re.compile(r"setting system clock to \S+[T ]\S+ UTC \((?P<epoch>1\d{9})\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A time as it was printed.

    us: microseconds within the day; since the host's start where kind is `boot`; since 1970 UTC where it is `epoch`.
    year, month, day: None where the line doesn't say. zone_minutes: east of UTC; None where it doesn't say.
    """

    us: int
    kind: Literal["wall", "boot", "epoch"] = "wall"
    year: int | None = None
    month: int | None = None
    day: int | None = None
    zone_minutes: int | None = None

    @property
    def zoned(self) -> bool:
        """Whether it is known how the time relates to UTC."""
        return self.kind == "epoch" or self.zone_minutes is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A stamp in a text: it ends at `end`; keep: what of it isn't time and stays, such as the level `[E` of glog."""

    stamp: Stamp
    end: int
    keep: str = ""


def stamp_at(text: str, start: int = 0) -> Found | None:
    """Read the time that a text has at `start`; None where there is none.

    >>> stamp_at("[Mon Nov 30 14:02:11 2026] NVRM: Xid").stamp.year
    2026
    """
    first = text[start : start + 1]
    if first == "[":
        first = text[start + 1 : start + 2]
    forms = _BY_DIGIT if first.isdigit() or first == " " else _BY_LETTER if first.isalpha() and first.isupper() else ()
    for form in forms:
        found = form.match(text, start)
        if found is not None:
            stamp = _stamp(found.groupdict())
            if stamp is not None:
                return Found(stamp=stamp, end=found.end(), keep=found.groupdict().get("keep") or "")
    return None


def stamp_within(text: str) -> Stamp | None:
    """Read a time with its whole date from the first WITHIN_CHARS characters; None where there is none."""
    found = _ISO.search(text, 0, WITHIN_CHARS)
    return _stamp(found.groupdict()) if found else None


def boot_times(lines: Iterator[tuple[int, str]]) -> Iterator[int]:
    """Tell when a host was started, microseconds since 1970, from lines with times since then that carry both."""
    for since_us, text in lines:
        found = _AUDIT.search(text) or _CLOCK_SET.search(text)
        if found:
            yield round(float(found["epoch"]) * SECOND_US) - since_us


def complete(stamp: Stamp, near_us: int | None, zone_minutes: int = 0, booted_us: int | None = None) -> int | None:
    """Work out the microseconds since 1970 UTC; None for a time since the host's start when that isn't known.

    near_us: a time that it is close to, for a missing year or date; without it 1970-01-01 stands in. zone_minutes: of
    times that name no zone. booted_us: when the host was started.
    """
    if stamp.kind == "epoch":
        return stamp.us
    if stamp.kind == "boot":
        return None if booted_us is None else booted_us + stamp.us
    zone = stamp.zone_minutes if stamp.zone_minutes is not None else zone_minutes
    of_day_us = stamp.us - zone * MINUTE_US
    near = near_us or 0
    if stamp.month is None or stamp.day is None:
        return of_day_us + (0 if near_us is None else round((near - of_day_us) / DAY_US) * DAY_US)
    if stamp.year is not None:
        years: tuple[int, ...] = (stamp.year,)
    else:
        year = date.fromordinal(EPOCH_ORDINAL + near // DAY_US).year
        years = (year - 1, year, year + 1) if near_us is not None else (1972,)
    days = [day for year in years if (day := _days(year, stamp.month, stamp.day)) is not None]
    return min((day * DAY_US + of_day_us for day in days), key=lambda us: abs(us - near), default=None)


def _days(year: int, month: int, day: int) -> int | None:
    """Count the days from 1970-01-01; None for a day that the year doesn't have."""
    try:
        return date(year, month, day).toordinal() - EPOCH_ORDINAL
    except ValueError:
        return None


def _stamp(groups: dict[str, str | None]) -> Stamp | None:
    boot = groups.get("boot")
    if boot is not None:
        whole, _, part = boot.partition(".")
        us = int(whole) * SECOND_US + _fraction_us(part)
        # No host runs for 31 years: such a number counts from 1970, as UCX prints it.
        return Stamp(us=us, kind="epoch" if us >= 10**15 else "boot")
    hours, minutes, seconds = (int(groups[name] or 0) for name in ("h", "mi", "s"))
    us = ((hours * 60 + minutes) * 60 + seconds) * SECOND_US + _fraction_us((groups["f"] or "") + (groups["g"] or ""))
    month, year, day = groups.get("mo"), groups.get("y") or groups.get("y2"), groups.get("d")
    name = groups.get("mon")
    number = MONTHS.index(name) + 1 if name else int(month) if month else None
    if day is not None and number is not None and _days(int(year or 2000), number, int(day)) is None:
        return None
    return Stamp(
        us=us,
        year=int(year) if year else None,
        month=number,
        day=int(day) if day else None,
        zone_minutes=_zone_minutes(groups.get("z")),
    )


def _fraction_us(digits: str) -> int:
    """Read what stands behind the point of a second."""
    return int(digits[:6].ljust(6, "0")) if digits else 0


def _zone_minutes(zone: str | None) -> int | None:
    if not zone:
        return None
    if zone[0] not in "+-":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return -minutes if zone[0] == "-" else minutes
