"""What went wrong: one verdict with its evidence, and the times it took.

Pure data; judging is the room `health`, which grows with its issue.
"""

from dataclasses import dataclass

CULPRIT_KINDS = ("rank", "chip", "host", "link", "code", "configuration", "unknown")
REMEDIES = ("restart_in_place", "cordon_replace", "fix_user_code", "fix_config", "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Who did it. kind: one of CULPRIT_KINDS. name: `rank 3`, `south-1`, `south-1 chip 2`; empty when unknown."""

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """One who is named, for programs to act on: as much of it as is known, the rest empty or None.

    chip: as its host names it: an index or a bus address. process: a program's name. pid: its id on its host.
    """

    host: str = ""
    chip: str = ""
    rank: int | None = None
    process: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that was seen.

    at_us: corrected time; None where the source carries none. borrowed: that time is of the nearest line above which
    has one. layer: process, runtime, driver, ...
    """

    source: str
    text: str
    at_us: int | None = None
    borrowed: bool = False
    layer: str = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One fault: class, culprit, who only suffered, confidence (high, medium, low), remedy (one of REMEDIES), times.

    culprits, suffered: the same as `culprit` and `sufferers`, for programs; a link has two ends.
    """

    fault_class: str
    culprit: Culprit
    confidence: str
    remedy: str
    advice: str
    evidence: tuple[Evidence, ...] = ()
    sufferers: tuple[str, ...] = ()
    culprits: tuple[Party, ...] = ()
    suffered: tuple[Party, ...] = ()
    detected_us: int | None = None
    located_us: int | None = None
    recovered_us: int | None = None
    lost_work_s: float | None = None
    version: int = 1
