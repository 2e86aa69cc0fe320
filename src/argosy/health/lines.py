"""A line of a log as diagnosis sees it: its words, and who printed it when, as far as that can be told.

Pure data. Must not know what a line means.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that some program printed.

    source: the file, as the user named it; number: counted from 1. text: without colours, prefixes of launchers and
    the time. at_us: microseconds since 1970 UTC, or since the host's start where `booted` is true; None where the line
    carries no time. rank, local_rank, host, program, pid: None or empty where nothing names them. borrowed: the time
    is of the nearest line above that has one.
    """

    source: str
    number: int
    text: str
    at_us: int | None = None
    booted: bool = False
    rank: int | None = None
    local_rank: int | None = None
    host: str = ""
    program: str = ""
    pid: int | None = None
    borrowed: bool = False
