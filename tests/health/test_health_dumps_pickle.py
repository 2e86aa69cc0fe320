"""Reading the plain data of a pickle: the same values as Python reads, and nothing is ever run."""

import os
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.health import dumps_pickle
from argosy.health.dumps_pickle import NESTING_MAX, read_plain_pickle

KEYS = st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none())
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6), st.dictionaries(KEYS, inner, max_size=6), st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=30,
)


class Evil:
    """Runs a command when it is unpickled by the usual means."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def refusal_of(data: bytes) -> str:
    """Give why bytes are refused; empty where they are read."""
    try:
        read_plain_pickle(data)
    except BadInputError as error:
        return str(error)
    return ""


class TestPlain:
    @pytest.mark.slow
    @given(PLAIN, st.integers(min_value=2, max_value=pickle.HIGHEST_PROTOCOL))
    def test_reads_what_python_writes(self, value, protocol):
        """Every plain value of every protocol from 2 on comes back equal."""
        assert read_plain_pickle(pickle.dumps(value, protocol)) == value

    @given(st.binary(), st.integers(min_value=3, max_value=pickle.HIGHEST_PROTOCOL))
    def test_bytes_are_plain_from_protocol_3_on(self, value, protocol):
        """Bytes come back equal; in protocol 2 they are a call, and refused."""
        assert read_plain_pickle(pickle.dumps(value, protocol)) == value
        with pytest.raises(BadInputError, match="holds a call"):
            read_plain_pickle(pickle.dumps(value, 2))

    def test_shared_values_stay_shared(self):
        """A value that is named twice is one object, so that a small file can't become a large one."""
        inner = ["x"]
        first, second = read_plain_pickle(pickle.dumps([inner, inner]))
        assert first is second


class TestHostile:
    def test_a_call_is_refused_and_not_run(self, tmp_path):
        """A pickle that would start a program is refused by what it holds."""
        marker = tmp_path / "ran"
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(BadInputError, match="holds a call or an object"):
                read_plain_pickle(pickle.dumps({"entries": [Evil(marker)]}, protocol))
        assert not marker.exists()

    @pytest.mark.parametrize("code", [b"cos\nsystem\n", b"\x93", b"R", b"ios\nsystem\n", b"o", b"b", b"\x81", b"\x92"])
    def test_every_instruction_that_makes_objects_is_refused(self, code):
        """Imports, calls and constructors are refused wherever they stand."""
        with pytest.raises(BadInputError, match="holds a call or an object"):
            read_plain_pickle(b"\x80\x02NN" + code + b".")

    def test_a_huge_length_is_refused_before_it_is_taken(self):
        """A text of four gigabytes in a file of twelve bytes is an error, not memory."""
        with pytest.raises(BadInputError, match="wants 4,294,967,295 bytes"):
            read_plain_pickle(b"\x80\x02X" + struct.pack("<I", 0xFFFFFFFF) + b"abc.")

    def test_a_far_place_to_remember_costs_nothing(self):
        """A value may be kept under any number without a table of that size."""
        assert read_plain_pickle(b"\x80\x02Nr" + struct.pack("<I", 0xFFFFFFFF) + b".") is None

    def test_endless_values_are_refused(self):
        """Values that are never used up are bounded."""
        with pytest.raises(BadInputError, match="values are open"):
            read_plain_pickle(b"\x80\x02" + b"N" * (NESTING_MAX + 2))

    @pytest.mark.parametrize(
        ("code", "words"), [(b"\x94", "over 500 values are remembered"), (b"}0", "over 1,000 instructions")]
    )
    def test_endless_instructions_are_refused(self, monkeypatch, code, words):
        """One byte may take a hundred of memory, so both what is done and what is remembered are bounded."""
        monkeypatch.setattr(dumps_pickle, "STEPS_MAX", 1_000)
        monkeypatch.setattr(dumps_pickle, "MEMO_MAX", 500)
        assert words in refusal_of(b"\x80\x02N" + code * 600 + b".")

    def test_a_deep_key_is_refused(self):
        """A tuple within tuples ten thousand deep is no key, for Python would follow it to the end of its stack."""
        with pytest.raises(BadInputError, match="key of a dict"):
            read_plain_pickle(b"\x80\x02}N" + b"\x85" * 10_000 + b"Ns.")

    @given(st.binary(max_size=200))
    def test_any_bytes_are_read_or_refused(self, data):
        """Whatever the bytes, there is a value or a clear error."""
        assert refusal_of(data).startswith("pickle: ") or not refusal_of(data)

    @given(st.data())
    def test_a_damaged_dump_is_read_or_refused(self, data):
        """A real dump with a byte changed or its end cut off is a value or a clear error."""
        whole = pickle.dumps({"entries": [{"state": "scheduled", "sizes": [[1, 2], [3]], "ok": True}], "n": 1.5}, 2)
        at = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
        value = data.draw(st.integers(min_value=0, max_value=255))
        changed = whole[:at] + bytes([value]) + whole[at + 1 :]
        for damaged in (changed, whole[:at]):
            assert refusal_of(damaged).startswith("pickle: ") or not refusal_of(damaged)
