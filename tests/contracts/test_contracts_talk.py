"""The words between agent and server, as bytes."""

import msgspec
import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.job import RunSpec
from argosy.contracts.messages import Ready
from argosy.contracts.talk import (
    Answer,
    Forget,
    Gang,
    Held,
    HeldRank,
    JoinAnswer,
    JoinAsk,
    LogPart,
    Meeting,
    RankSaid,
    ReadLog,
    StartRun,
    StopAttempt,
    Talk,
    read_word,
    write_word,
)

GANG = Gang(job="job-1", nodes=1, node_rank=0, first_rank=0, ranks=1, world_size=1, meeting=Meeting(host="h", port=1))
ORDERS = (
    StartRun(id="1", term=1, attempt="job-1.1", gang=GANG, spec=RunSpec(command=("true",))),
    StopAttempt(id="2", term=1, attempt="job-1.1", reason="test"),
    ReadLog(id="3", term=1, attempt="job-1.1", rank=0),
    Forget(id="4", term=1, attempt="job-1.1"),
)


class TestWords:
    def test_a_talk_survives(self):
        """What an agent says is read as it was written, logs byte by byte."""
        held = Held(attempt="job-1.1", generation=2, state="running", ranks=(HeldRank(rank=0, pid=7),))
        said = RankSaid(number=1, attempt="job-1.1", generation=2, position=64, message=Ready(step=0, pid=7))
        part = LogPart(number=2, order="3", attempt="job-1.1", rank=0, offset=0, data=b"\xff\0", next_offset=2, size=2)
        talk = Talk(session="s", number=3, boot_id="b", sent_us=4, held=(held,), reports=(said, part))
        assert read_word(write_word(talk), Talk) == talk

    def test_an_answer_survives(self):
        """Orders of every kind arrive as they were given."""
        answer = Answer(term=1, lease_s=30.0, orders=ORDERS)
        assert read_word(write_word(answer), Answer) == answer

    def test_an_idle_talk_is_small(self):
        """A heartbeat costs few bytes, since 12,500 agents send one every few seconds."""
        assert len(write_word(Talk(session="0123456789abcdef", number=10**6, boot_id="b" * 40, sent_us=10**15))) < 200

    @pytest.mark.parametrize(
        "data", [b"", b"{}", b"\x80", b"\xc1", write_word(JoinAnswer(node="n", key="k", service="s"))]
    )
    def test_other_bytes_are_refused(self, data):
        """What is no Talk is refused with the field that is wrong."""
        with pytest.raises(BadInputError, match="not a Talk of protocol 1"):
            read_word(data, Talk)

    def test_another_protocol_is_refused_by_number(self):
        """Words of a later protocol are not half-read."""
        data = msgspec.msgpack.encode(
            {"token": "t", "agent": "a", "facts": {"hostname": "h", "boot_id": "b"}, "protocol": 2}
        )
        with pytest.raises(BadInputError, match="JoinAsk is of protocol 2; this Argosy speaks 1"):
            read_word(data, JoinAsk)
