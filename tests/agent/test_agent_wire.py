"""Addresses and the outbox of an agent."""

import socket

import pytest

from argosy.agent.wire import Outbox, dial, parse_address
from argosy.contracts.errors import BadInputError, InfrastructureError


class TestAddress:
    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            ("unix:/run/a", (socket.AF_UNIX, "/run/a")),
            ("node-7:4000", (socket.AF_INET, ("node-7", 4000))),
            ("[::1]:4000", (socket.AF_INET6, ("::1", 4000))),
        ],
    )
    def test_addresses_are_read(self, address, expected):
        """Unix paths, names and IPv6 addresses are understood."""
        assert parse_address(address) == expected

    @pytest.mark.parametrize("address", ["", "node-7", ":4000", "node-7:", "node-7:x", "node-7:0", "node-7:65536"])
    def test_bad_addresses_are_refused(self, address):
        """What is no address is named, with what is allowed."""
        with pytest.raises(BadInputError, match=r"expected unix:PATH or HOST:PORT"):
            parse_address(address)

    def test_too_long_a_path_is_refused(self):
        """A path that the system can't bind says how long it is and what to do."""
        with pytest.raises(BadInputError, match="200 bytes long; at most 107 are allowed: set TMPDIR"):
            parse_address("unix:" + "x" * 200)

    def test_nobody_answers(self, tmp_path):
        """A connection that is refused names the address."""
        with pytest.raises(InfrastructureError, match=r"nobody answers at unix:.*/absent: No such file"):
            dial(f"unix:{tmp_path}/absent", 1.0)


class TestOutbox:
    def test_a_full_socket_keeps_the_rest(self):
        """What the socket doesn't take waits, and comes in order later."""
        near, far = socket.socketpair()
        with near, far:
            outbox = Outbox(near)
            data = bytes(range(256)) * 8192
            outbox.put(data)
            assert 0 < outbox.size_bytes < len(data)
            received = bytearray()
            while len(received) < len(data):
                received += far.recv(1 << 16)
                outbox.flush()
            assert bytes(received) == data
            assert outbox.size_bytes == 0

    def test_a_lost_reader_is_an_error(self):
        """Writing to a connection that ended raises."""
        near, far = socket.socketpair()
        far.close()
        with near, pytest.raises(ConnectionError):
            Outbox(near).put(b"x")

    def test_drain_is_bounded(self):
        """A reader that never reads doesn't hold the writer for ever."""
        near, far = socket.socketpair()
        with near, far:
            outbox = Outbox(near)
            outbox.put(b"x" * (1 << 22))
            outbox.drain(0.01)
            assert outbox.size_bytes > 0
