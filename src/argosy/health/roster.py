"""Which rank ran where: learnt from lines that name both, lent to lines that name one.

NCCL prints host and process on every line, and the rank of a process once, when a communicator is made. Must not know
what lines mean otherwise.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from argosy.health.lines import Line
from argosy.health.scanner import Needles

PLACES_MAX = 200_000
# Of a process's communicators the largest is the job's.
_INIT = re.compile(
    # Bounded on all sides, for a line may have no end: each of its bytes would be a beginning, and follow all others.
    rb"(?<![\w.-])(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,9}):\d{1,9} \[-?\d{1,6}\] NCCL INFO "
    rb"[^\n]{0,400}?\brank (?P<rank>\d{1,9}) n[rR]anks (?P<of>\d{1,9})"
)
# Stands in either spelling.
_OPENS = Needles(b"anks ")


@dataclass(slots=True, kw_only=True)
class Roster:
    """What is known so far. ranks: by host and process id, with the size of the communicator that told it."""

    ranks: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def learn(self, block: bytes) -> None:
        """Read the lines with which NCCL opens communicators."""
        if not _OPENS.stand_in(block):
            return
        for found in _INIT.finditer(block):
            place = (found["host"].decode("utf-8", "replace"), int(found["pid"]))
            size, rank = int(found["of"]), int(found["rank"])
            if size > self.ranks.get(place, (0, 0))[0] and (place in self.ranks or len(self.ranks) < PLACES_MAX):
                self.ranks[place] = (size, rank)

    def filled(self, lines: Iterable[Line]) -> list[Line]:
        """Give lines the rank and the host that they lack, by the process that printed them.

        A rank that was seen on several hosts, as after a restart, lends none.
        """
        named = [self._ranked(line) for line in lines]
        hosts: dict[int, set[str]] = {}
        for (host, _), (_, rank) in self.ranks.items():
            hosts.setdefault(rank, set()).add(host)
        for line in named:
            if line.rank is not None and line.host:
                hosts.setdefault(line.rank, set()).add(line.host)
        alone = {rank: next(iter(found)) for rank, found in hosts.items() if len(found) == 1}
        return [line if line.host or line.rank not in alone else replace(line, host=alone[line.rank]) for line in named]

    def _ranked(self, line: Line) -> Line:
        known = (
            self.ranks.get((line.host, line.pid)) if line.rank is None and line.host and line.pid is not None else None
        )
        return line if known is None else replace(line, rank=known[1])
