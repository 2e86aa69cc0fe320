"""Lines in a byte stream, and the words of the talks that use them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import (
    HostStore,
    RankEnded,
    SignalRanks,
    StopRanks,
    read_downward,
    read_reply,
    read_request,
    read_upward,
    write_line,
)
from argosy.contracts.messages import Note


class TestLineBuffer:
    @given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
    def test_lines_survive_any_cut(self, lines, size):
        """However the stream is cut into pieces, the same lines come out."""
        stream = b"".join(line + b"\n" for line in lines)
        buffer = LineBuffer()
        out = [line for i in range(0, len(stream), size) for line in buffer.feed(stream[i : i + size])]
        assert out == lines

    def test_half_a_line_waits(self):
        """A line without its end is kept until the rest comes."""
        buffer = LineBuffer()
        assert buffer.feed(b"ab") == []
        assert buffer.feed(b"c\nd") == [b"abc"]

    def test_too_long_a_line_is_refused(self):
        """A peer that never ends its line can't fill memory."""
        with pytest.raises(InfrastructureError, match="longer than 8 bytes"):
            LineBuffer(8).feed(b"123456789")


class TestTalks:
    @pytest.mark.parametrize(
        ("read", "message"),
        [
            (read_downward, StopRanks(reason="because", grace_s=1.5)),
            (read_request, HostStore(host="127.0.0.1", port=1)),
            (read_request, SignalRanks(number=15)),
            (read_reply, RankEnded(rank=3, code=-9)),
            (read_upward, Note(rank=1, text="ü")),
        ],
    )
    def test_messages_round_trip(self, read, message):
        """What is written as a line is read as the same message."""
        line = write_line(message)
        assert line.count(b"\n") == 1
        assert read(line) == message

    @pytest.mark.parametrize("line", [b"", b"{}", b'{"type":"launch_missiles"}', b'{"type":"note","text":1}', b"\xff"])
    def test_what_is_no_message_is_refused(self, line):
        """Garbage, unknown types and wrong fields are an error that shows the line."""
        with pytest.raises(InfrastructureError, match="not a message of this version"):
            read_upward(line)
