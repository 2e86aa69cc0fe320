"""A line that matched a signature: what was seen, with the fields that the pattern named.

Pure data. Must not know how lines are searched, nor what is concluded from many.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.health.lines import Line
from argosy.health.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One line that matched one signature; a line may match several.

    fields: the named groups that matched, without empty ones. at_us: the line's time on the reference clock,
    microseconds since 1970 UTC; None where it can't be told. repeats: further sightings like this one (same signature,
    rank and host) that followed and are only counted.
    """

    line: Line
    signature: Signature
    fields: Mapping[str, str]
    at_us: int | None = None
    repeats: int = 0
