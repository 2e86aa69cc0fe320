"""Recognises a dump by its content and reads it: Flight Recorder, trace ring, stacks of a process, NCCL RAS.

Must not know how files are found or opened, nor what a dump is judged to mean.
"""

from dataclasses import dataclass
from typing import Literal

from argosy.contracts.errors import BadInputError
from argosy.health.dumps_flight import looks_like_flight, rank_of, read_flight
from argosy.health.dumps_ras import RasReport, looks_like_ras, read_ras
from argosy.health.dumps_rings import MAGIC, read_trace_ring
from argosy.health.dumps_stacks import ProcessStacks, looks_like_stacks, read_stacks
from argosy.health.traces import RankTraceOfGroups

Kind = Literal["flight", "ring", "stacks", "ras"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One file that was read. name: the file's. rank: None where it is not told; of the rest what its kind holds."""

    name: str
    kind: Kind
    rank: int | None = None
    trace: RankTraceOfGroups | None = None
    stacks: tuple[ProcessStacks, ...] = ()
    ras: RasReport | None = None


def kind_of(head: bytes) -> Kind | None:
    """Tell what kind of dump begins with these bytes (64 KiB are plenty); None if none."""
    if head.startswith(MAGIC):
        return "ring"
    if looks_like_flight(head):
        return "flight"
    if looks_like_ras(head):
        return "ras"
    return "stacks" if looks_like_stacks(head) else None


def read_dump(name: str, head: bytes, data: bytes) -> Dump | None:
    """Read a dump; None when the file is none. name: the file's, which names the rank where the content does not.

    Raises BadInputError when it is one, but damaged, cut short, or holding what plain data does not need.
    """
    kind = kind_of(head)
    if kind == "ring":
        trace = read_trace_ring(name, data)
        return Dump(name=name, kind=kind, rank=trace.rank, trace=trace)
    if kind == "flight":
        trace = read_flight(name, data)
        return Dump(name=name, kind=kind, rank=trace.rank, trace=trace)
    if kind == "ras":
        return Dump(name=name, kind=kind, ras=read_ras(name, data))
    if kind == "stacks":
        return Dump(name=name, kind=kind, rank=_rank_or_none(name), stacks=read_stacks(name, data))
    return None


def _rank_or_none(name: str) -> int | None:
    try:
        return rank_of(name)
    except BadInputError:
        return None
