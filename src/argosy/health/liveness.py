"""What logs say of processes that died by themselves and of hosts that are lost, for whoever looks at traces.

Must not know traces, nor which death was the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from argosy.health.sightings import Sighting
from argosy.health.traces import Liveness, RankState

# SIGILL, SIGBUS, SIGFPE, SIGKILL, SIGSEGV. Who aborts (6) or is asked to stop (15) followed somebody else.
DEATHS = frozenset({-4, -7, -8, -9, -11})
EXITS = frozenset({"elastic.summary", "launcher.killed_by", "mpi.signal", "slurm.task"})
# In Slurm's words; a task that it calls killed may be one that it ended itself.
WORDS = {
    "out of memory": -9,
    "segmentation fault": -11,
    "bus error": -7,
    "illegal instruction": -4,
    "floating point exception": -8,
}
# What the kernel says of a process by its id, and the exit code that it means.
KERNEL_DEATHS = {"kernel.oom_kill": -9, "kernel.segfault": -11}
# A host of which one of these is said no longer runs its ranks.
HOST_DEATHS = frozenset({"node.down", "node.kernel_panic", "scheduler.node_failure"})
SHELL_BASE = 128


def liveness_of(sightings: Iterable[Sighting]) -> Liveness:
    """Read reports of launchers, schedulers and kernels: which ranks died by themselves, which hosts are lost."""
    seen = tuple(sightings)
    ranks: dict[int, RankState] = {}
    hosts: dict[str, set[int]] = {}
    for one in seen:
        if one.line.rank is not None and one.line.host:
            hosts.setdefault(one.line.host, set()).add(one.line.rank)
    for rank, state in (*_exits(seen), *_killed(seen), *_lost(seen, hosts)):
        ranks.setdefault(rank, state)
    return Liveness(ranks=ranks)


def _exits(sightings: Sequence[Sighting]) -> Iterator[tuple[int, RankState]]:
    """Read launchers' reports of signals that are a death of their own."""
    for seen in sightings:
        rank = _rank_of(seen)
        code = _number(seen.fields.get("code", ""))
        if code is None and seen.fields.get("signal"):
            code = -(_number(seen.fields["signal"]) or 0)
        if code is None:
            code = WORDS.get(seen.fields.get("death", "").lower())
        if code is not None and code > SHELL_BASE:
            code = SHELL_BASE - code
        if seen.signature.name in EXITS and rank is not None and code in DEATHS:
            yield rank, _exited(seen, seen.line.host, code)


def _killed(sightings: Sequence[Sighting]) -> Iterator[tuple[int, RankState]]:
    """Read what kernels say of processes; whose they are is told by lines that name process and rank."""
    ranks: dict[int, tuple[int, str]] = {}
    for seen in sightings:
        pid, rank = _number(seen.fields.get("pid", "")), _rank_of(seen)
        if pid is not None and rank is not None:
            ranks.setdefault(pid, (rank, seen.line.host))
    for seen in sightings:
        code = KERNEL_DEATHS.get(seen.signature.name)
        pid = _number(seen.fields.get("pid", ""))
        if code is None or pid not in ranks:
            continue
        rank, host = ranks[pid]
        if not host or not seen.line.host or host == seen.line.host:
            yield rank, _exited(seen, seen.line.host or host, code)


def _lost(sightings: Sequence[Sighting], hosts: Mapping[str, Iterable[int]]) -> Iterator[tuple[int, RankState]]:
    """Give the ranks of hosts that are said to be down."""
    for seen in sightings:
        if seen.signature.fault_class in HOST_DEATHS:
            host = seen.fields.get("host", "") or seen.fields.get("node", "")
            # A kernel speaks of its own host; a scheduler names the one that it lost.
            host = host or (seen.line.host if seen.signature.layer == "kernel" else "")
            for rank in sorted(hosts.get(host, ())):
                state = RankState(state="unreachable", host=host, at_us=seen.at_us, detail=seen.line.text.strip())
                yield rank, state


def _exited(seen: Sighting, host: str, code: int) -> RankState:
    return RankState(state="exited", host=host, exit_code=code, at_us=seen.at_us, detail=seen.line.text.strip())


def _rank_of(seen: Sighting) -> int | None:
    return seen.line.rank if seen.line.rank is not None else _number(seen.fields.get("rank", ""))


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdecimal() and len(text) <= 9 else None
