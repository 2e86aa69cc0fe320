"""What the planner offers the scheduler: sizes with their worth, free of any word about TP or PP.

Pure data; grows with the scheduler.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """So many whole nodes of one class. topology: the domain they must share: node, rack, spine, site or any."""

    chip_class: str
    nodes: int
    topology: str = "site"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One rung of an option's ladder.

    efficiency: its throughput over what its parts do on their own. cost_per_trillion_tokens, power_kw: None where a
    price or a rated power is unknown. emulated: the throughput is that of emulated chips.
    """

    parts: tuple[Part, ...]
    tokens_per_second: float
    efficiency: float
    cost_per_trillion_tokens: float | None = None
    power_kw: float | None = None
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job, in several sizes, largest first.

    valid_until_us: after that the fleet or prices may have changed; None: no end.
    """

    name: str
    job: str
    ladder: tuple[Size, ...]
    valid_until_us: int | None = None
    version: int = 1
