"""The client against a server that tests play: answers, problems, a server that is away, streams."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from argosy import client as client_module
from argosy.client import Address, AsyncClient, Client, Cutter, find_address
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.server import models as m
from argosy.server.place import Card, write_card, write_secret

Answer = Callable[[str, str, dict[str, str], bytes], tuple[int, bytes]]
JOB = {"id": "job-1", "name": "j", "queue": "q", "owner": "o", "kind": "run", "state": "waiting"}
JOB_BYTES = json.dumps(JOB | {"submitted_us": 1, "since_us": 1}).encode()


class Played(ThreadingHTTPServer):
    """A server whose answers a test gives."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.asked = answer, []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> Address:
        """Give where it is."""
        return Address(url=f"http://127.0.0.1:{self.server_port}", token="secret")


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server: Any = self.server
        server.asked.append((self.command, self.path, dict(self.headers), body))
        status, content = server.answer(self.command, self.path, dict(self.headers), body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: Any) -> None:
        """Say nothing."""


for _method in ("GET", "POST", "PUT", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler._answer)


@pytest.fixture
def play() -> Iterator[Callable[[Answer], Played]]:
    """Play servers, which end with the test."""
    servers: list[Played] = []

    def one(answer: Answer) -> Played:
        servers.append(Played(answer))
        return servers[-1]

    yield one
    for server in servers:
        server.shutdown()
        server.server_close()


class TestAnswers:
    def test_a_job_is_handed_in_with_a_key(self, play: Any) -> None:
        """The client draws one, so that sending it again makes no second job."""
        server = play(lambda *_: (201, JOB_BYTES))
        with Client(server.address) as client:
            assert client.submit(m.Submission(document="x")).id == "job-1"
        ((method, path, headers, body),) = server.asked
        assert (method, path) == ("POST", "/v1/jobs")
        assert headers["Authorization"] == "Bearer secret"
        assert len(headers["Idempotency-Key"]) == 32
        assert json.loads(body)["document"] == "x"

    def test_names_are_quoted(self, play: Any) -> None:
        """A name never becomes another path."""
        server = play(lambda *_: (404, b'{"detail": "no job ../nodes"}'))
        with Client(server.address) as client, pytest.raises(BadInputError, match=r"no job \.\./nodes"):
            client.job("../nodes")
        assert server.asked[0][1] == "/v1/jobs/..%2Fnodes"

    @pytest.mark.parametrize(
        ("status", "body", "kind", "text"),
        [
            (422, b'{"detail": "wrong"}', BadInputError, "wrong"),
            (503, b'{"detail": "disk full"}', InfrastructureError, "disk full"),
            (502, b"<html>bad gateway</html>", InfrastructureError, "bad gateway"),
            (500, b"", InfrastructureError, "the server answered 500"),
            (200, b"{}", InfrastructureError, "not an answer of this version"),
        ],
    )
    def test_problems_become_errors(self, play: Any, status: int, body: bytes, kind: Any, text: str) -> None:
        """With the server's own words."""
        server = play(lambda *_: (status, body))
        with Client(server.address, patience_s=0.0) as client, pytest.raises(kind, match=text):
            client.job("j")

    def test_a_deadline_stays_where_it_is(self, play: Any) -> None:
        """A wish that has to be sent twice names the same moment, by the service's own clock."""
        counts: Any = {"jobs": {}, "nodes": {}, "chips": 0, "chips_held": 0, "waiting": 0, "term": 1, "seq": 1}
        told = m.Status(version="1", pid=1, now_us=5_000_000, started_us=0, fleet="f", **counts)
        answers = iter([(200, told.model_dump_json().encode()), (503, b"{}"), (422, b'{"detail": "enough"}')])
        server = play(lambda *_: next(answers))
        wish = m.IntentWish(intent="draining", deadline_s=60.0)
        with Client(server.address, patience_s=30.0) as client, pytest.raises(BadInputError, match="enough"):
            client.set_intent("n", wish)
        assert [json.loads(body)["deadline_us"] for _, _, _, body in server.asked[1:]] == [65_000_000] * 2

    def test_a_server_that_is_away_is_asked_again(self, play: Any) -> None:
        """Until it is back, or patience ends; what must not be done twice is not."""
        answers = iter([(503, b"{}"), (503, b"{}"), (200, b"[]")])
        server = play(lambda *_: next(answers))
        told: list[str] = []
        with Client(server.address, patience_s=30.0, told=told.append) as client:
            assert client.nodes() == []
        assert told == [f"{server.address.url} does not answer now; trying again for 30 s"]
        once = play(lambda *_: (503, b'{"detail": "away"}'))
        with Client(once.address, patience_s=30.0) as client, pytest.raises(InfrastructureError, match="away"):
            client.create_token(m.TokenWish(owner="mary"))
        assert len(once.asked) == 1

    def test_nobody_there_is_told(self) -> None:
        """With the address, and what to look at."""
        with Client(Address(url="http://127.0.0.1:1", token=""), patience_s=0.0) as client:
            with pytest.raises(InfrastructureError, match=r"no answer from http://127\.0\.0\.1:1"):
                client.status()
            with pytest.raises(InfrastructureError, match="no answer"):
                list(client.logs("j"))


class TestStreams:
    @pytest.mark.parametrize("waits", [True, False])
    def test_events_go_on_where_they_were(self, play: Any, waits: bool) -> None:
        """A stream that ends is asked for again, after the last id, by both clients."""
        seen: list[str] = []

        def answer(_method: str, path: str, _headers: Any, _body: bytes) -> tuple[int, bytes]:
            seen.append(path)
            event = m.EventView(id=f"{len(seen)}.0", at_us=1, kind="k", about="a", text="t")
            return 200, f": hello\n\nid: {event.id}\ndata: {event.model_dump_json()}\n\n".encode()

        async def story() -> list[str]:
            async with AsyncClient(play(answer).address) as client:
                events = client.events()
                return [(await anext(events)).id, (await anext(events)).id]

        if waits:
            with Client(play(answer).address) as client:
                events = client.events()
                assert [next(events).id, next(events).id] == ["1.0", "2.0"]
        else:
            assert asyncio.run(story()) == ["1.0", "2.0"]
        assert seen == ["/v1/events", "/v1/events?after=1.0"]

    def test_logs_are_lines_of_json(self, play: Any) -> None:
        """Empty ones say only that the connection lives."""
        line = m.LogLine(rank=1, node="n", offset=3, text="hi").model_dump_json().encode()
        server = play(lambda *_: (200, b"\n" + line + b"\n\n"))
        with Client(server.address) as client:
            assert [one.text for one in client.logs("j", rank=1, tail=5)] == ["hi"]
        assert server.asked[0][1] == "/v1/jobs/j/logs?tail=5&follow=false&rank=1"

    def test_what_breaks_a_stream_of_logs_is_raised(self, play: Any) -> None:
        """With the server's words, and by whose fault it is."""
        broke = (
            m.Problem(title="t", status=422, detail="rank: job-1.1 has ranks 0 to 1, got 7").model_dump_json().encode()
        )
        server = play(lambda *_: (200, b"\n" + broke + b"\n"))
        with Client(server.address) as client, pytest.raises(BadInputError, match="has ranks 0 to 1, got 7"):
            list(client.logs("j", rank=7, follow=True))
        other = play(lambda *_: (200, b"{}\n"))
        with Client(other.address) as client, pytest.raises(InfrastructureError, match="not a line of a log"):
            list(client.logs("j"))


class TestAsync:
    def test_code_is_handed_in_piece_by_piece(self, play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An archive may have 1 GiB: it is not read whole, and its size is told before."""
        monkeypatch.setattr(client_module, "PIECE_BYTES", 4)
        (tmp_path / "code").write_bytes(b"0123456789")
        server = play(lambda *_: (201, m.BundleView(id="0" * 64, size_bytes=10).model_dump_json().encode()))

        async def story() -> m.BundleView:
            async with AsyncClient(server.address) as client:
                return await client.put_bundle(tmp_path / "code")

        assert asyncio.run(story()).size_bytes == 10
        assert server.asked[0][3] == b"0123456789"

    def test_it_has_the_same_methods(self, play: Any) -> None:
        """Answers, problems and streams are those of the other client."""
        names = {name for name in vars(Client) if not name.startswith("_")} - {"close"}
        assert names <= set(vars(AsyncClient))
        line = m.LogLine(rank=1, node="n", offset=3, text="hi").model_dump_json().encode()
        answers = {"/v1/jobs": JOB_BYTES, "/v1/nodes": b"[]"}
        server = play(lambda _m, path, _h, _b: (200, answers.get(path.partition("?")[0], line)))

        async def story() -> list[Any]:
            async with AsyncClient(server.address) as client:
                job = await client.submit(m.Submission(document="x"))
                lines = [one.text async for one in client.logs("j")]
                return [job.id, await client.nodes(), lines]

        assert asyncio.run(story()) == ["job-1", [], ["hi"]]


class TestAddress:
    def test_a_service_of_this_host_is_found(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """By its card and token; the environment comes first, what is given before all."""
        for name in ("ARGOSY_SERVER", "ARGOSY_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        write_card(tmp_path, Card(url="http://here:1", pid=1))
        write_secret(tmp_path / "token", "t1")
        found = find_address(folder=tmp_path)
        assert (found.url, found.token) == ("http://here:1", "t1")
        monkeypatch.setenv("ARGOSY_SERVER", "http://there:2/")
        monkeypatch.setenv("ARGOSY_TOKEN", "t2")
        found = find_address(folder=tmp_path)
        assert (found.url, found.token) == ("http://there:2", "t2")
        assert find_address(url="http://given:3", folder=tmp_path).url == "http://given:3"
        # The administrator's token of this host goes to no other server.
        monkeypatch.delenv("ARGOSY_TOKEN")
        assert find_address(url="http://given:3", folder=tmp_path).token == ""
        assert find_address(folder=tmp_path).token == ""
        assert find_address(url="http://here:1/", folder=tmp_path).token == "t1"

    @pytest.mark.parametrize(
        ("url", "token", "text"),
        [
            ("here:7070", "", "server: got 'here:7070'; write a URL such as http"),
            ("http://[::1", "", "write a URL such as http"),
            ("http://a:b", "", "write a URL such as http"),
            ("http://", "", "write a URL such as http"),
            ("http://a\nb", "", "write a URL such as http"),
            ("http://a", "t\u00f6ken", "ARGOSY_TOKEN: a token has letters"),
        ],
    )
    def test_what_is_no_address_is_refused(self, tmp_path: Path, url: str, token: str, text: str) -> None:
        """Before anybody is waited for."""
        with pytest.raises(BadInputError, match=re.escape(text)):
            find_address(url=url, token=token, folder=tmp_path)


class TestCutter:
    def test_only_line_feeds_end_lines(self) -> None:
        """Other line ends, such as U+2028, stay within a line, and so does what chunks cut apart."""
        cutter = Cutter()
        data = "a\u2028b\x0bc\r\nd\u00e9".encode()
        lines = [line for byte in data for line in cutter.lines(bytes([byte]))]
        assert lines + cutter.last() == ["a\u2028b\x0bc\r", "d\u00e9"]
