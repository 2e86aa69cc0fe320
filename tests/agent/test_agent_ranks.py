"""Starting one rank, seen from its agent: what stays open when it can't be started."""

import os
import socket

import pytest

from argosy.agent import ranks
from argosy.agent.ranks import RankServer
from argosy.contracts.errors import InfrastructureError


@pytest.fixture
def server(tmp_path):
    """Give a connection to a fork server that only listens, and the other end of it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "fork"))
        listener.listen()
        made = RankServer(tmp_path / "fork", 1.0)
        far, _ = listener.accept()
    yield made, far
    made.close()
    far.close()


def descriptors():
    """List the descriptors that this process has open."""
    return set(os.listdir("/proc/self/fd"))


class TestFork:
    def test_no_pipe_left(self, server, tmp_path, monkeypatch):
        """An agent out of descriptors once died of a bare OSError and left the log open; now it tells and goes on."""

        def refuse(_):
            raise OSError(24, "Too many open files")

        before = descriptors()
        monkeypatch.setattr(ranks.os, "pipe2", refuse)
        with pytest.raises(InfrastructureError, match=r"rank 3: can't make the pipe.*Too many open files.*ulimit"):
            server[0].fork(3, tmp_path / "rank-3.log", threads=0, append=False)
        assert descriptors() == before

    def test_a_server_that_is_gone(self, server, tmp_path):
        """When the request can't be sent, neither pipe nor log stays open."""
        server[1].close()
        before = descriptors()
        with pytest.raises(InfrastructureError, match="is gone"):
            server[0].fork(3, tmp_path / "rank-3.log", threads=0, append=False)
        assert descriptors() == before

    def test_a_request_that_arrived_is_no_failure(self, server, tmp_path, monkeypatch):
        """A server that took a request and ended at once once made the agent call that request unsent."""
        made, far = server
        whole = socket.send_fds

        def send_and_lose(connection, buffers, descriptors):
            sent = whole(connection, buffers, descriptors)
            far.close()
            return sent

        monkeypatch.setattr(ranks.socket, "send_fds", send_and_lose)
        rank = made.fork(3, tmp_path / "rank-3.log", threads=0, append=False)
        assert rank.number == 3
        os.close(rank.pipe)
