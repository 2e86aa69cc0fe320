"""Quantities as people write them in files and flags: durations, link rates, bytes, counts, switches.

Every parser takes what YAML or a flag gave, returns the plain number in the unit its name ends with, and raises
BadInputError that says the value got and what is allowed. It must not know which file or key a value came from:
`contracts.documents` adds the place.
"""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Nics

SECONDS_PER_UNIT = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
# Decimal prefixes: 1 GB = 10^9 bytes everywhere in Argosy. Binary ones are accepted with their `i`.
BYTES_PER_UNIT = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
GBPS_PER_UNIT = {"M": 1e-3, "G": 1.0, "T": 1e3}
KW_PER_UNIT = {"W": 1e-3, "kW": 1.0, "KW": 1.0, "MW": 1e3}
COUNT_PER_SUFFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}

_NUMBER = r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DURATION_PIECE = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*")
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-z/]*)")
_NICS = re.compile(rf"(?:(\d{{1,6}})\s*x\s*)?({_NUMBER})\s*([MGT])(?:b/s|bps|bit/s|bits/s|bE|E)?")
_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_TEXT_LENGTH_MAX = 60


def show(value: object) -> str:
    """Write a value for an error message, shortened to one line."""
    constants = {None: "nothing", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return constants[value]
    text = repr(value) if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _TEXT_LENGTH_MAX else text[: _TEXT_LENGTH_MAX - 3] + "..."


def parse_duration_s(value: object) -> float:
    """Read a duration in seconds: `40h`, `10m`, `90s`, `1h30m`, `250ms`, or a number of seconds.

    Raises BadInputError for anything else, for negative times and for times without an end.
    """
    allowed = "a duration such as 90s, 10m, 40h, 2d or 1h30m, or a number of seconds"
    if not isinstance(value, str):
        return _number(value, allowed)
    text = value.strip()
    if re.fullmatch(_NUMBER, text):
        return _number(float(text), allowed)
    pieces = _DURATION_PIECE.findall(text)
    if not pieces or _DURATION_PIECE.sub("", text):
        raise BadInputError(f"got {show(value)}; write {allowed}")
    total_s = 0.0
    for amount, unit in pieces:
        if unit not in SECONDS_PER_UNIT:
            known = ", ".join(SECONDS_PER_UNIT)
            raise BadInputError(f"unknown unit of time {show(unit)} in {show(value)}; units are {known}")
        total_s += float(amount) * SECONDS_PER_UNIT[unit]
    return _number(total_s, allowed)


def parse_nics(value: object) -> Nics:
    """Read a node's network cards: `8x400G` is eight cards of 400 Gb/s, `1.6T` one of 1,600 Gb/s."""
    allowed = "write cards x bits a second, such as 8x400G"
    if isinstance(value, Nics):
        return value
    if not isinstance(value, str):
        raise BadInputError(f"got {show(value)}; {allowed}")
    found = _NICS.fullmatch(value.strip())
    if found is None:
        bytes_hint = "rates are in bits (G), not bytes (GB); " if re.search(r"[MGT]B", value) else ""
        raise BadInputError(f"got {show(value)}; {bytes_hint}{allowed}")
    count, gbps = int(found[1] or 1), float(found[2]) * GBPS_PER_UNIT[found[3]]
    if count == 0 or gbps == 0 or not math.isfinite(gbps):
        raise BadInputError(f"got {show(value)}, which carries nothing; {allowed}")
    return Nics(count=count, gbps=gbps)


def parse_gbps(value: object) -> float:
    """Read a link rate in Gb/s: a number of Gb/s, or `400G`, `1.6T`, `250M`."""
    if isinstance(value, str):
        nics = parse_nics(value)
        return nics.total_gbps
    return _number(value, "a rate in Gb/s such as 400 or 400G")


def parse_bytes(value: object) -> float:
    """Read an amount of bytes: a number of bytes, or `16GB` (10^9), `16GiB` (2^30), `500MB`."""
    allowed = "an amount such as 16GB, 500MB or 64GiB, or a number of bytes"
    if not isinstance(value, str):
        return _number(value, allowed)
    found = _QUANTITY.fullmatch(value.strip())
    if found is None or (found[2] and found[2] not in BYTES_PER_UNIT):
        raise BadInputError(f"got {show(value)}; write {allowed}")
    return _number(float(found[1]) * BYTES_PER_UNIT[found[2] or "B"], allowed)


def parse_kw(value: object) -> float:
    """Read a power in kW: `500kW`, `1.2 MW`; a bare number is refused, for fleets count in MW and chips in W."""
    allowed = "write a power with its unit, such as 500kW or 1.2MW"
    found = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or found[2] not in KW_PER_UNIT:
        raise BadInputError(f"got {show(value)}; {allowed}")
    return _number(float(found[1]) * KW_PER_UNIT[found[2]], allowed)


def parse_count(value: object) -> int:
    """Read a whole number: `12`, `1_000`, `1,000`, `20k`, `1.5M`, `1T`.

    Raises BadInputError for fractions, negative numbers and anything that is no number.
    """
    allowed = "a whole number such as 1000, 20k or 1.5M"
    if isinstance(value, int) and not isinstance(value, bool):
        return int(_number(value, allowed))
    if isinstance(value, float) and value.is_integer():
        return int(_number(value, allowed))
    text = re.sub(r"(?<=\d)[_,](?=\d)", "", value.strip()) if isinstance(value, str) else ""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in COUNT_PER_SUFFIX:
        raise BadInputError(f"got {show(value)}; write {allowed}")
    amount = float(found[1]) * COUNT_PER_SUFFIX[found[2]]
    if not math.isfinite(amount) or not amount.is_integer():
        raise BadInputError(f"got {show(value)}, which is not whole; write {allowed}")
    return round(amount)


def parse_switch(value: object) -> bool:
    """Read a switch: yes, no, on, off, true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    raise BadInputError(f"got {show(value)}; write yes or no")


def _number(value: object, allowed: str) -> float:
    """Check that a value is a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInputError(f"got {show(value)}; write {allowed}")
    if not math.isfinite(value):
        raise BadInputError(f"got {show(value)}, which has no end; write {allowed}")
    if value < 0:
        raise BadInputError(f"must not be negative, got {show(value)}; write {allowed}")
    return float(value)


# Field types for the pydantic models that read files: the parser runs first, so files may use units.
DurationS = Annotated[float, BeforeValidator(parse_duration_s), Field(gt=0)]
Gbps = Annotated[float, BeforeValidator(parse_gbps), Field(gt=0)]
Bytes = Annotated[float, BeforeValidator(parse_bytes)]
PowerKw = Annotated[float, BeforeValidator(parse_kw), Field(gt=0)]
Count = Annotated[int, BeforeValidator(parse_count)]
Switch = Annotated[bool, BeforeValidator(parse_switch)]
NicsText = Annotated[Nics, BeforeValidator(parse_nics)]
