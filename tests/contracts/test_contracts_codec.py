"""The JSON form of contracts, and what is refused."""

import pytest

from argosy.contracts import codec
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Site
from argosy.contracts.messages import StepDone, Upward
from argosy.contracts.option import Option


class TestDecode:
    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"name": 5}', b"\xff", b'{"power_mw": 1}'])
    def test_other_json_is_refused_by_name(self, data):
        """What is no Site says so, and which field is wrong."""
        with pytest.raises(BadInputError, match="not a Site of version 1"):
            codec.decode(data, Site)

    def test_later_versions_are_refused(self):
        """A contract of a version that this Argosy does not know is not half-read."""
        with pytest.raises(BadInputError, match="Option is of version 2; this Argosy reads version 1"):
            codec.decode(b'{"name": "a", "job": "b", "ladder": [], "version": 2}', Option)

    def test_unions_are_refused_cleanly(self):
        """A line that is no message of any kind raises BadInputError too."""
        with pytest.raises(BadInputError, match="not a"):
            codec.decode(b'{"type": "gossip"}', Upward)

    def test_messages_are_one_line(self):
        """A message is one line, so that lines frame messages."""
        message = StepDone(step=1, loss=2.0, norm=1.0, learning_rate=1e-3, tokens=5, wall_s=0.1)
        assert b"\n" not in codec.encode(message)
