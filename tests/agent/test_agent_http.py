"""HTTP to a real server on loopback: answers, refusals, silence."""

import socket
from contextlib import contextmanager

import pytest

from argosy.agent.http import Courier, RefusedError, ServerGoneError, ServerSilentError, parse_server
from argosy.contracts.errors import BadInputError
from argosy.contracts.talk import BUNDLE_PATH, JOIN_PATH, HostFacts, JoinAnswer, JoinAsk, read_word, write_word
from support.talk_server import TalkServer

ASK = write_word(JoinAsk(token="t", agent="a", facts=HostFacts(hostname="h", boot_id="b"), node="n7"))


@pytest.fixture
def server():
    """Run a server."""
    running = TalkServer()
    yield running
    running.close()


@contextmanager
def deaf():
    """Listen and never answer; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class TestCourier:
    def test_a_body_comes_back(self, server):
        """A request is answered, over one connection for several."""
        courier = Courier(server.url, "")
        for _ in range(2):
            assert read_word(courier.post(JOIN_PATH, ASK, 10.0), JoinAnswer).node == "n7"
        assert len(server.connections) == 1
        courier.close()

    def test_a_broken_connection_is_opened_again(self, server):
        """A kept connection that broke meanwhile costs nothing but time."""
        courier = Courier(server.url, "")
        courier.post(JOIN_PATH, ASK, 10.0)
        server.connections[0].shutdown(socket.SHUT_RDWR)
        assert courier.post(JOIN_PATH, ASK, 10.0)
        courier.close()

    def test_nobody_listening_is_no_silence(self, server):
        """A refused connection proves that no server lives there."""
        server.close()
        with pytest.raises(ServerGoneError, match="nobody listens at http://127"):
            Courier(server.url, "").post(JOIN_PATH, ASK, 10.0)

    def test_silence_is_told_apart(self):
        """A server that doesn't answer may live: it is silent, not gone."""
        with deaf() as port, pytest.raises(ServerSilentError, match="no answer from"):
            Courier(f"http://127.0.0.1:{port}", "").post(JOIN_PATH, ASK, 0.1)

    def test_a_refusal_carries_status_and_words(self, server):
        """An error of the server is told with what it said."""
        with pytest.raises(RefusedError, match="answered 404: no such bundle") as caught:
            Courier(server.url, "").get(BUNDLE_PATH + "0", 100, 10.0)
        assert caught.value.status == 404

    def test_an_answer_is_bounded(self, server):
        """A body over the bound is refused before it is whole."""
        server.bundles["0"] = b"x" * 101
        with pytest.raises(ServerSilentError, match="more than 100 bytes"):
            Courier(server.url, "").get(BUNDLE_PATH + "0", 100, 10.0)


class TestParseServer:
    def test_urls(self):
        """Scheme, host and port are read, ports of the schemes assumed."""
        assert parse_server("http://h:7070") == (False, "h", 7070)
        assert parse_server("https://[::1]/") == (True, "::1", 443)

    @pytest.mark.parametrize("url", ["h:7070", "ftp://h", "http://", "http://h:x", "http://h/path", "http://[::1", ""])
    def test_others_are_refused(self, url):
        """What is no server's URL is refused with a pattern to follow."""
        with pytest.raises(BadInputError, match="write http://HOST:PORT"):
            parse_server(url)
