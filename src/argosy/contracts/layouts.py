"""How a trace ring and a snapshot lie in memory that a rank writes and its agent reads.

Fixed little-endian records with checksums, so that a reader that outlives the writer can tell a whole record from a
torn one. Packs and unpacks bytes only; whoever owns the memory maps it, and this module must not know how.

A trace ring is `HEADER_BYTES` of header, `MARK_BYTES` of progress mark, then `capacity` records of `RECORD_BYTES`;
record number n (counted from 0 since the start) lies in slot n modulo capacity. A snapshot unit is `UNIT_BYTES` of
header, then its payload.
"""

import struct
import zlib
from dataclasses import dataclass

from argosy.contracts.errors import InfrastructureError

VERSION = 1
OPERATIONS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "send",
    "receive",
    "barrier",
)
# On a GPU an entry on the CPU proves nothing: `started` and `finished` are the device's word.
STATES = ("enqueued", "started", "finished")
PHASES = ("starting", "forward", "backward", "exchange", "update", "saving", "idle")
DTYPES = ("fp32", "bf16", "fp16", "fp64", "int64", "int32", "uint8", "bool")
NAME_BYTES_MAX = 120

_RING_MAGIC, _UNIT_MAGIC = b"ARGORING", b"ARGOUNIT"
_HEADER = struct.Struct("<8sIiII")
_INDEX = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<IHBxQQq")
_MARK = struct.Struct("<qiB3xq")
_UNIT = struct.Struct(f"<8sIiIIQQQQIHH{NAME_BYTES_MAX}sI")

# On eight bytes of its own, so that a reader never sees half of an update.
INDEX_OFFSET = 32
HEADER_BYTES = 64
RECORD_BYTES = _RECORD.size + _CRC.size
MARK_BYTES = 64
RECORDS_OFFSET = HEADER_BYTES + MARK_BYTES
UNIT_BYTES = _UNIT.size + _CRC.size


@dataclass(frozen=True, slots=True, kw_only=True)
class RingHeader:
    """What a trace ring says of itself. written: records written since the start, also those overwritten."""

    rank: int
    generation: int
    capacity: int
    written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """One state of one collective. operation: of OPERATIONS. state: of STATES. sequence: counted per group.

    payload_bytes: what this rank puts in. time_us: the writer's clock.
    """

    group: int
    sequence: int
    operation: str
    state: str
    payload_bytes: int
    time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMark:
    """Where a rank is in its step. phase: of PHASES. microbatch: -1 outside of forward and backward."""

    step: int
    phase: str
    time_us: int
    microbatch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotUnit:
    """One piece of training state: elements first..end (end not included) of one tensor's TP slice, flattened.

    unit: as a Plan counts them (-1 = embedding). dtype: of DTYPES. payload_crc32: of the payload that follows.
    """

    unit: int
    tensor: str
    first: int
    end: int
    dtype: str
    step: int
    generation: int
    payload_bytes: int
    payload_crc32: int
    tp_index: int = 0
    tp: int = 1


def ring_bytes(capacity: int) -> int:
    """Count the bytes of a trace ring."""
    return RECORDS_OFFSET + capacity * RECORD_BYTES


def record_offset(number: int, capacity: int) -> int:
    """Find where record `number` (counted since the start) lies in a ring."""
    return RECORDS_OFFSET + (number % capacity) * RECORD_BYTES


def pack_ring_header(header: RingHeader) -> bytes:
    """Write a ring's header; `written` alone is later updated, at INDEX_OFFSET by `pack_written`."""
    body = _HEADER.pack(_RING_MAGIC, VERSION, header.rank, header.generation, header.capacity)
    return (_sealed(body).ljust(INDEX_OFFSET, b"\0") + pack_written(header.written)).ljust(HEADER_BYTES, b"\0")


def pack_written(written: int) -> bytes:
    """Write the count of records: eight aligned bytes, so a reader never sees half of it."""
    return _INDEX.pack(written)


def unpack_ring_header(data: bytes | memoryview) -> RingHeader:
    """Read a ring's header; raises InfrastructureError when it is no ring, of another version, or torn."""
    body = _opened(data, _HEADER.size, "trace ring")
    magic, version, rank, generation, capacity = _HEADER.unpack(body)
    _check_kind(magic, _RING_MAGIC, version, "trace ring")
    if len(data) < INDEX_OFFSET + _INDEX.size or capacity == 0:
        raise InfrastructureError(f"trace ring: the header is cut short or has no records ({len(data)} bytes)")
    (written,) = _INDEX.unpack_from(data, INDEX_OFFSET)
    return RingHeader(rank=rank, generation=generation, capacity=capacity, written=written)


def pack_record(record: TraceRecord) -> bytes:
    """Write one record of a trace ring."""
    operation = _code(record.operation, OPERATIONS, "operation")
    state = _code(record.state, STATES, "state")
    return _sealed(_RECORD.pack(record.group, operation, state, record.sequence, record.payload_bytes, record.time_us))


def unpack_record(data: bytes | memoryview) -> TraceRecord:
    """Read one record; raises InfrastructureError when the writer was in the middle of it."""
    body = _opened(data, _RECORD.size, "trace record")
    group, operation, state, sequence, payload_bytes, time_us = _RECORD.unpack(body)
    return TraceRecord(
        group=group,
        sequence=sequence,
        operation=_name(operation, OPERATIONS, "operation"),
        state=_name(state, STATES, "state"),
        payload_bytes=payload_bytes,
        time_us=time_us,
    )


def read_ring(data: bytes | memoryview) -> tuple[RingHeader, tuple[TraceRecord, ...]]:
    """Read the records that a ring still holds, oldest first; torn ones are left out."""
    header = unpack_ring_header(data)
    if len(data) < ring_bytes(header.capacity):
        text = f"trace ring: {len(data)} bytes are too few for {header.capacity} records"
        raise InfrastructureError(f"{text}; {ring_bytes(header.capacity)} are needed")
    records = []
    for number in range(max(0, header.written - header.capacity), header.written):
        offset = record_offset(number, header.capacity)
        try:
            records.append(unpack_record(data[offset : offset + RECORD_BYTES]))
        except InfrastructureError:
            continue
    return header, tuple(records)


def pack_mark(mark: ProgressMark) -> bytes:
    """Write a progress mark; it lies at HEADER_BYTES of a ring."""
    body = _MARK.pack(mark.step, mark.microbatch, _code(mark.phase, PHASES, "phase"), mark.time_us)
    return _sealed(body).ljust(MARK_BYTES, b"\0")


def unpack_mark(data: bytes | memoryview) -> ProgressMark:
    """Read a progress mark; raises InfrastructureError when none was written or it is torn."""
    body = _opened(data, _MARK.size, "progress mark")
    step, microbatch, phase, time_us = _MARK.unpack(body)
    return ProgressMark(step=step, phase=_name(phase, PHASES, "phase"), time_us=time_us, microbatch=microbatch)


def pack_snapshot_unit(unit: SnapshotUnit) -> bytes:
    """Write the header of a snapshot unit; raises InfrastructureError for a tensor name over NAME_BYTES_MAX bytes."""
    name = unit.tensor.encode()
    if len(name) > NAME_BYTES_MAX or b"\0" in name:
        raise InfrastructureError(f"snapshot unit: the tensor name {unit.tensor!r} is over {NAME_BYTES_MAX} bytes")
    numbers = (unit.unit, unit.generation, _code(unit.dtype, DTYPES, "dtype"))
    interval = (unit.step, unit.first, unit.end, unit.payload_bytes, unit.payload_crc32)
    body = _UNIT.pack(_UNIT_MAGIC, VERSION, *numbers, *interval, unit.tp_index, unit.tp, name, len(name))
    return _sealed(body)


def unpack_snapshot_unit(data: bytes | memoryview) -> SnapshotUnit:
    """Read the header of a snapshot unit; raises InfrastructureError when it is none, of another version, or torn."""
    fields = _UNIT.unpack(_opened(data, _UNIT.size, "snapshot unit"))
    magic, version, unit, generation, dtype, step, first, end, payload_bytes, payload_crc32 = fields[:10]
    tp_index, tp, name, name_bytes = fields[10:]
    _check_kind(magic, _UNIT_MAGIC, version, "snapshot unit")
    return SnapshotUnit(
        unit=unit,
        tensor=name[:name_bytes].decode(),
        first=first,
        end=end,
        dtype=_name(dtype, DTYPES, "dtype"),
        step=step,
        generation=generation,
        payload_bytes=payload_bytes,
        payload_crc32=payload_crc32,
        tp_index=tp_index,
        tp=tp,
    )


def check_payload(unit: SnapshotUnit, payload: bytes | memoryview) -> None:
    """Compare a payload with its header; raises InfrastructureError naming the tensor when they differ."""
    if len(payload) != unit.payload_bytes or zlib.crc32(payload) != unit.payload_crc32:
        text = f"snapshot unit {unit.unit} {unit.tensor}: the payload of step {unit.step} does not match its checksum"
        raise InfrastructureError(f"{text}; take the unit from another holder")


def _sealed(body: bytes) -> bytes:
    """Put the checksum behind a body."""
    return body + _CRC.pack(zlib.crc32(body))


def _opened(data: bytes | memoryview, size: int, what: str) -> bytes:
    """Check the checksum behind a body of a known size, and give the body."""
    if len(data) < size + _CRC.size:
        raise InfrastructureError(f"{what}: {len(data)} bytes, at least {size + _CRC.size} are needed")
    body = bytes(data[:size])
    if _CRC.unpack_from(data, size)[0] != zlib.crc32(body):
        raise InfrastructureError(f"{what}: the checksum does not match; it was written in part or damaged")
    return body


def _check_kind(magic: bytes, wanted: bytes, version: int, what: str) -> None:
    """Refuse bytes that begin like something else or come from another version."""
    if magic != wanted:
        raise InfrastructureError(f"{what}: begins with {magic!r}, not {wanted!r}")
    if version != VERSION:
        raise InfrastructureError(f"{what}: layout version {version}; this Argosy reads version {VERSION}")


def _code(name: str, names: tuple[str, ...], what: str) -> int:
    """Give the number that stands for a name."""
    if name not in names:
        raise InfrastructureError(f"unknown {what} {name!r}; known: {', '.join(names)}")
    return names.index(name)


def _name(code: int, names: tuple[str, ...], what: str) -> str:
    """Give the name that a number stands for."""
    if code >= len(names):
        raise InfrastructureError(f"{what} number {code} is unknown; this Argosy knows {len(names)}")
    return names[code]
