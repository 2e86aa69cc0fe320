"""Trace rings and snapshot units as bytes."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts import layouts
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.layouts import ProgressMark, RingHeader, SnapshotUnit, TraceRecord

U32, U64, I64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)
RECORDS = st.builds(
    TraceRecord,
    group=U32,
    sequence=U64,
    operation=st.sampled_from(layouts.OPERATIONS),
    state=st.sampled_from(layouts.STATES),
    payload_bytes=U64,
    time_us=I64,
)
MARKS = st.builds(
    ProgressMark, step=I64, phase=st.sampled_from(layouts.PHASES), time_us=I64, microbatch=st.integers(-1, 2**31 - 1)
)


def record(sequence=0) -> TraceRecord:
    """Make a record of a finished all-reduce."""
    return TraceRecord(
        group=3,
        sequence=sequence,
        operation="all_reduce",
        state="finished",
        payload_bytes=4096,
        time_us=1_000 + sequence,
    )


def unit(**changes) -> SnapshotUnit:
    """Make the header of a snapshot of four bytes."""
    values = {"unit": -1, "tensor": "embed_tokens.weight", "first": 0, "end": 1, "dtype": "fp32", "step": 7}
    values |= {"generation": 2, "payload_bytes": 4, "payload_crc32": zlib.crc32(b"abcd"), "tp_index": 1, "tp": 2}
    return SnapshotUnit(**(values | changes))


def ring(written, capacity=4) -> bytearray:
    """Make a ring as its writer would after `written` records."""
    data = bytearray(layouts.ring_bytes(capacity))
    data[: layouts.HEADER_BYTES] = layouts.pack_ring_header(RingHeader(rank=5, generation=2, capacity=capacity))
    for number in range(written):
        offset = layouts.record_offset(number, capacity)
        data[offset : offset + layouts.RECORD_BYTES] = layouts.pack_record(record(number))
    data[layouts.INDEX_OFFSET : layouts.INDEX_OFFSET + 8] = layouts.pack_written(written)
    return data


class TestRing:
    @given(RECORDS)
    def test_records_round_trip(self, value):
        """A record is read back as it was written."""
        assert layouts.unpack_record(layouts.pack_record(value)) == value

    @given(MARKS)
    def test_marks_round_trip(self, value):
        """A progress mark is read back as it was written, from its fixed place."""
        data = layouts.pack_mark(value)
        assert len(data) == layouts.MARK_BYTES
        assert layouts.unpack_mark(data) == value

    @pytest.mark.parametrize(("written", "left"), [(0, []), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [5, 6, 7, 8])])
    def test_a_ring_keeps_the_newest(self, written, left):
        """The last `capacity` records remain, oldest first."""
        header, records = layouts.read_ring(ring(written))
        assert header == RingHeader(rank=5, generation=2, capacity=4, written=written)
        assert [item.sequence for item in records] == left

    def test_a_torn_record_is_left_out(self):
        """A record the writer was in the middle of is skipped, the others are read."""
        data = ring(4)
        data[layouts.record_offset(2, 4) + 9] ^= 1
        assert [item.sequence for item in layouts.read_ring(data)[1]] == [0, 1, 3]

    def test_the_index_is_aligned(self):
        """The count that is updated alone lies on eight bytes, so it's never seen in part."""
        assert layouts.INDEX_OFFSET % 8 == 0
        assert layouts.INDEX_OFFSET + 8 <= layouts.HEADER_BYTES

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (b"", "trace ring: 0 bytes, at least"),
            (bytes(200), "begins with"),
            (bytes(ring(4)[:200]), "are too few for 4 records"),
            (layouts.pack_ring_header(RingHeader(rank=0, generation=0, capacity=0)), "has no records"),
        ],
    )
    def test_what_is_no_ring_is_refused(self, data, text):
        """Too few bytes, other bytes and an empty ring are refused with the reason."""
        with pytest.raises(InfrastructureError, match="trace ring") as caught:
            layouts.read_ring(data)
        assert text in str(caught.value) or "checksum" in str(caught.value)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_refused_cleanly(self, data):
        """Bytes that nobody packed raise InfrastructureError in every reader."""
        readers = (layouts.read_ring, layouts.unpack_record, layouts.unpack_mark, layouts.unpack_snapshot_unit)
        for reader in readers:
            with pytest.raises(InfrastructureError):
                reader(data.ljust(1, b"\1"))

    def test_unknown_words_are_refused(self):
        """An operation outside the list is named with those that exist."""
        with pytest.raises(InfrastructureError, match="unknown operation 'gossip'; known: all_reduce"):
            layouts.pack_record(
                TraceRecord(group=0, sequence=0, operation="gossip", state="started", payload_bytes=0, time_us=0)
            )


class TestSnapshot:
    @given(
        number=st.integers(-1, 2**31 - 1),
        tensor=st.text(max_size=20).filter(lambda text: "\0" not in text),
        first=U64,
        dtype=st.sampled_from(layouts.DTYPES),
    )
    def test_headers_round_trip(self, number, tensor, first, dtype):
        """A unit's header is read back as it was written."""
        value = unit(unit=number, tensor=tensor, first=first, dtype=dtype)
        data = layouts.pack_snapshot_unit(value)
        assert len(data) == layouts.UNIT_BYTES
        assert layouts.unpack_snapshot_unit(data) == value

    @given(st.integers(0, layouts.UNIT_BYTES * 8 - 1))
    def test_any_flipped_bit_is_seen(self, bit):
        """One flipped bit anywhere in the header is refused."""
        data = bytearray(layouts.pack_snapshot_unit(unit()))
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InfrastructureError, match="snapshot unit"):
            layouts.unpack_snapshot_unit(data)

    def test_a_payload_is_checked(self):
        """A payload that differs in length or content is refused, naming the tensor."""
        layouts.check_payload(unit(), b"abcd")
        for payload in (b"abce", b"abc", b""):
            with pytest.raises(InfrastructureError, match=r"-1 embed_tokens.weight: the payload of step 7"):
                layouts.check_payload(unit(), payload)

    def test_a_long_name_is_refused(self):
        """A tensor name that does not fit is refused rather than cut."""
        with pytest.raises(InfrastructureError, match="over 120 bytes"):
            layouts.pack_snapshot_unit(unit(tensor="x" * 121))

    def test_another_version_is_refused(self):
        """A header of a later layout is named as such."""
        data = bytearray(layouts.pack_snapshot_unit(unit()))
        data[8] = 9
        data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "little")
        with pytest.raises(InfrastructureError, match="layout version 9; this Argosy reads version 1"):
            layouts.unpack_snapshot_unit(data)
