"""A job's options as rungs: every size of every option, best first by what the job is after.

The rest of the core sees only rungs. Must not know queues, nor what is free.
"""

from dataclasses import dataclass

from argosy.contracts.option import Option, Size
from argosy.contracts.policy import SECOND_US
from argosy.contracts.request import Claim, Pool
from argosy.control.domains import LEVELS

TRILLION = 10**12


@dataclass(frozen=True, slots=True)
class RungPart:
    """So many nodes of a pool within one domain of a level."""

    pool: int
    nodes: int
    level: int


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to run a job. chips: by pool's number. rate: tokens a second."""

    option: str
    size: int
    parts: tuple[RungPart, ...]
    chips: tuple[tuple[int, int], ...]
    rate: float
    cost: float | None

    @property
    def nodes(self) -> int:
        """How many nodes it takes."""
        return sum(part.nodes for part in self.parts)


def rungs_of(
    claim: Claim, options: tuple[Option, ...], pools: list[Pool], pool_number: dict[str, int], now_us: int
) -> tuple[Rung, ...]:
    """List every size of every option whose pools exist, best first."""
    found = []
    for option in options:
        for index, size in enumerate(option.ladder):
            if size.parts and all(part.chip_class in pool_number and part.nodes > 0 for part in size.parts):
                found.append(_rung(option.name, index, size, pools, pool_number))
    return tuple(sorted(found, key=lambda rung: _preference(claim, rung, now_us)))


def unknown_levels(options: tuple[Option, ...]) -> list[str]:
    """List topology levels that do not exist."""
    parts = (part for option in options for size in option.ladder for part in size.parts)
    return sorted({part.topology for part in parts} - set(LEVELS))


def _rung(name: str, index: int, size: Size, pools: list[Pool], pool_number: dict[str, int]) -> Rung:
    parts = tuple(
        RungPart(pool_number[part.chip_class], part.nodes, LEVELS.index(part.topology)) for part in size.parts
    )
    chips: dict[int, int] = {}
    for part in parts:
        chips[part.pool] = chips.get(part.pool, 0) + part.nodes * pools[part.pool].chips_per_node
    return Rung(name, index, parts, tuple(sorted(chips.items())), size.tokens_per_second, size.cost_per_trillion_tokens)


def _preference(claim: Claim, rung: Rung, now_us: int) -> tuple[float | str | int, ...]:
    """Give the key by which rungs are ordered; names settle what is equal, so the order of input does not matter."""
    cost = rung.cost if rung.cost is not None else float("inf")
    if claim.goal == "cheapest":
        first: tuple[float, ...] = (0.0, cost, -rung.rate)
    elif claim.goal == "deadline" and claim.deadline_us is not None and claim.work_tokens is not None:
        left_s = max(1e-6, (claim.deadline_us - now_us) / SECOND_US)
        late = rung.rate * left_s < claim.work_tokens
        first = (1.0, -rung.rate, cost) if late else (0.0, cost, -rung.rate)
    else:
        first = (0.0, -rung.rate, cost)
    return (*first, rung.nodes, rung.option, rung.size)
