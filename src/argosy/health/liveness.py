"""What logs say of processes that died by themselves, for whoever looks at traces.

Must not know traces, nor which death was the first.
"""

from collections.abc import Iterable

from argosy.health.sightings import Sighting
from argosy.health.traces import Liveness, RankState

# SIGILL, SIGBUS, SIGFPE, SIGKILL, SIGSEGV. Who aborts (6) or is asked to stop (15) followed somebody else.
DEATHS = frozenset({-4, -7, -8, -9, -11})
EXITS = frozenset({"elastic.summary", "launcher.killed_by", "mpi.signal"})
SHELL_BASE = 128


def liveness_of(sightings: Iterable[Sighting]) -> Liveness:
    """Read launchers' reports: which ranks were killed by a signal that is a death of their own."""
    ranks: dict[int, RankState] = {}
    for seen in sightings:
        rank = seen.line.rank if seen.line.rank is not None else _number(seen.fields.get("rank", ""))
        code = _number(seen.fields.get("code", ""))
        if code is None and seen.fields.get("signal"):
            code = -(_number(seen.fields["signal"]) or 0)
        if code is not None and code > SHELL_BASE:
            code = SHELL_BASE - code
        if seen.signature.name in EXITS and rank is not None and code in DEATHS:
            state = RankState(
                state="exited", host=seen.line.host, exit_code=code, at_us=seen.at_us, detail=seen.line.text.strip()
            )
            ranks.setdefault(rank, state)
    return Liveness(ranks=ranks)


def _number(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdecimal() and len(text) <= 9 else None
