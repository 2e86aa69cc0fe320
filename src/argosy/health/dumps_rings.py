"""Reads a rank's own trace ring (contracts.layouts) as what location works on.

A ring knows groups by number and no peers of messages; who the members are is the plan's knowledge and may be given.
Must not know whose memory the bytes were.
"""

from collections.abc import Mapping

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.layouts import HEADER_BYTES, MARK_BYTES, ProgressMark, TraceRecord, read_ring, unpack_mark
from argosy.health.traces import Collective, RankTraceOfGroups, group_trace

_MESSAGES = ("send", "receive")
_UNEVEN = ("all_to_all",)
MAGIC = b"ARGORING"


def read_trace_ring(
    name: str, data: bytes, *, members: Mapping[int, tuple[int, ...]] | None = None, at_us: int | None = None
) -> RankTraceOfGroups:
    """Read a ring; members: per group's number its ranks. at_us: when the bytes were copied, by the ring's clock.

    Raises BadInputError when it is no ring, of another version, damaged or cut short.
    """
    try:
        header, records = read_ring(data)
    except InfrastructureError as error:
        raise BadInputError(f"{name}: {error}") from error
    by_group: dict[int, dict[tuple[int, str], Collective]] = {}
    for record in records:
        seen = by_group.setdefault(record.group, {})
        key = (record.sequence, record.operation if record.operation in _MESSAGES else "")
        seen[key] = _joined(seen.get(key), record)
    mark = _mark(data)
    return RankTraceOfGroups(
        rank=header.rank,
        groups=tuple(
            group_trace(
                str(group),
                (each for each in seen.values() if each.peer is None),
                members=(members or {}).get(group, ()),
                messages=(each for each in seen.values() if each.peer is not None),
            )
            for group, seen in sorted(by_group.items())
        ),
        phase=mark.phase if mark else "",
        step=mark.step if mark else -1,
        at_us=at_us,
    )


def _joined(earlier: Collective | None, record: TraceRecord) -> Collective:
    """Add one record to what is known of its collective; a later state never falls back."""
    times = {
        state: record.time_us if record.state == state else getattr(earlier, f"{state}_us", None)
        for state in ("enqueued", "started", "finished")
    }
    state = next(each for each in ("finished", "started", "enqueued") if times[each] is not None)
    return Collective(
        sequence=record.sequence,
        operation=record.operation,
        state=state,
        size=-1 if record.operation in _UNEVEN else record.payload_bytes,
        peer=-1 if record.operation in _MESSAGES else None,
        enqueued_us=times["enqueued"],
        started_us=times["started"],
        finished_us=times["finished"],
    )


def _mark(data: bytes) -> ProgressMark | None:
    try:
        return unpack_mark(data[HEADER_BYTES : HEADER_BYTES + MARK_BYTES])
    except InfrastructureError:
        return None  # a rank that has not begun its first step has none
