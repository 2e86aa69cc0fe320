"""What ranks did, read from `<directory>/trace`, and written as a Perfetto trace (ui.perfetto.dev opens it).

One process a node, one thread a rank; wires are a process of their own. Format: "Trace Event Format" of the Chromium
project: complete events (ph X) for ranks, asynchronous ones (ph b, e) for exchanges, which overlap on a wire; times in
microseconds. Must not know how ranks came to write.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from argosy.cli.files import write_text
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.plan import Plan

NAMES = {"F": "forward", "B": "backward", "U": "update", "X": "exchange"}
US_PER_MS = 1000.0


class RankOp(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as a rank wrote it (see `comm.traced`); kind: F, B, U or X. Virtual times are emulated ones."""

    kind: str
    step: int
    start_ms: float
    end_ms: float
    microbatch: int | None = None
    unit: int | None = None
    virtual_start_ms: float | None = None
    virtual_end_ms: float | None = None

    @property
    def span_ms(self) -> tuple[float, float]:
        """When it began and ended: on the emulated clock where there is one, else on the wall's."""
        if self.virtual_start_ms is None or self.virtual_end_ms is None:
            return self.start_ms, self.end_ms
        return self.virtual_start_ms, self.virtual_end_ms

    @property
    def name(self) -> str:
        """What it is, in words."""
        name = NAMES.get(self.kind, self.kind)
        if self.unit is not None:
            return f"{name} of {'the embedding' if self.unit < 0 else f'unit {self.unit}'}"
        return name if self.microbatch is None else f"{name} {self.microbatch}"


class RankOps(msgspec.Struct, frozen=True, kw_only=True):
    """All that one rank wrote."""

    rank: int
    replica: int
    stage: int
    tp_index: int
    ops: tuple[RankOp, ...]
    dropped: int = 0


_DECODER: msgspec.json.Decoder[RankOps] = msgspec.json.Decoder(RankOps)


def read_traces(folder: Path) -> list[RankOps]:
    """Read every rank's file, in the order of ranks; none when nothing was traced."""
    try:
        return [_DECODER.decode(path.read_bytes()) for path in sorted(folder.glob("rank-*.json"))]
    except (OSError, msgspec.MsgspecError) as error:
        raise InfrastructureError(f"{folder}: a rank's trace can't be read: {error}") from error


def write_trace(path: Path, folder: Path, plan: Plan) -> None:
    """Write what the ranks did as one Perfetto trace."""
    write_text(path, json.dumps(perfetto(read_traces(folder), plan)))


def perfetto(traces: list[RankOps], plan: Plan) -> dict[str, Any]:
    """Put ranks' operations into trace events."""
    places = {place.rank: place for place in plan.placement}
    nodes = list(dict.fromkeys(place.node for place in plan.placement))
    events = [_named("process_name", pid, 0, node) for pid, node in enumerate(nodes)]
    wire_of = {exchange.unit: exchange.wire for exchange in plan.exchanges}
    wires = list(dict.fromkeys(wire_of.values()))
    if wires:
        events.append(_named("process_name", len(nodes), 0, "wires"))
        events += [_named("thread_name", len(nodes), tid, wire) for tid, wire in enumerate(wires)]
    for trace in traces:
        pid = nodes.index(places[trace.rank].node)
        where = f"replica {trace.replica} stage {trace.stage} TP {trace.tp_index}"
        events.append(_named("thread_name", pid, trace.rank, f"rank {trace.rank}: {where}"))
        for op in trace.ops:
            if op.kind != "X":
                events.append(_event(op, pid, trace.rank))
            elif op.unit in wire_of:
                events += _moved(op, len(nodes), wires.index(wire_of[op.unit]), len(events))
    dropped = sum(trace.dropped for trace in traces)
    about = {"model": plan.model, "fleet": plan.fleet, "emulated": plan.emulated, "operations_dropped": dropped}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(op: RankOp, pid: int, tid: int) -> dict[str, Any]:
    """Make one complete event; on emulated chips the wall's times are in args."""
    start_ms, end_ms = op.span_ms
    arguments: dict[str, Any] = {"step": op.step}
    if op.virtual_start_ms is not None:
        arguments |= {"emulated": True, "wall_start_ms": op.start_ms, "wall_end_ms": op.end_ms}
    return {
        "ph": "X",
        "name": op.name,
        "cat": NAMES.get(op.kind, op.kind),
        "pid": pid,
        "tid": tid,
        "ts": start_ms * US_PER_MS,
        "dur": (end_ms - start_ms) * US_PER_MS,
        "args": arguments,
    }


def _moved(op: RankOp, pid: int, tid: int, number: int) -> list[dict[str, Any]]:
    """Make the two events of an exchange."""
    common = {"name": op.name, "cat": "exchange", "pid": pid, "tid": tid, "id": number, "args": {"step": op.step}}
    return [common | {"ph": ph, "ts": at_ms * US_PER_MS} for ph, at_ms in zip("be", op.span_ms, strict=True)]
