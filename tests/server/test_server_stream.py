"""Events over a real connection: every one once, in order, from wherever a reader was."""

import socket
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from argosy.client import Address, Client
from argosy.server.api import events
from argosy.server.feed import KEPT, place_of
from argosy.server.models import EventView, Submission
from support.serving import RUN_JOB
from support.serving_thread import Serving
from support.talk_server import until

pytestmark = pytest.mark.slow


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Run a service."""
    thread = Serving(tmp_path).begin()
    yield thread
    thread.end()


@pytest.fixture
def client(serving: Serving) -> Iterator[Client]:
    """Give a client of a service."""
    with Client(Address(url=serving.url, token=serving.token)) as made:
        yield made


@pytest.fixture
def stuck(serving: Serving) -> Iterator[socket.socket]:
    """Give the connection of a reader of events that asks and reads no more than that it is answered."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.connect(("127.0.0.1", int(serving.url.rpartition(":")[2])))
        head = f"GET /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {serving.token}\r\n\r\n"
        made.sendall(head.encode())
        assert made.recv(12) == b"HTTP/1.1 200"
        yield made


def until_ended(events: Iterator[EventView], job: str) -> list[EventView]:
    """Read events up to a job's end."""
    return list(takewhile(lambda event: (event.about, event.kind) != (job, "job.ended"), events))


class TestEvents:
    def test_a_jobs_life_is_told_in_order(self, client: Client) -> None:
        """From its submission to its end, with ids that rise."""
        job = client.submit(Submission(document=RUN_JOB.format(nodes=9)))
        found = until_ended(client.events("0"), job.id)
        assert [event.kind for event in found if event.about == job.id] == ["job.submitted"]
        places = [place_of(event.id) for event in found]
        assert places == sorted(set(places))

    def test_a_reader_goes_on_where_it_was(self, client: Client) -> None:
        """What it saw does not come again, and nothing is left out."""
        jobs = [client.submit(Submission(document=RUN_JOB.format(nodes=9))) for _ in range(3)]
        everything = [event.id for event in until_ended(client.events("0"), jobs[-1].id)]
        middle = everything[len(everything) // 2]
        rest = [event.id for event in until_ended(client.events(middle), jobs[-1].id)]
        assert rest == everything[everything.index(middle) + 1 :]


class TestReaders:
    def test_one_that_reads_no_more_holds_nobody_and_nothing(
        self, serving: Serving, client: Client, stuck: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it does not read is not written out for it, and others read on; when it leaves nothing is left of it."""
        written = Counter[str]()
        sent = events._sent

        def counted(event: EventView | None) -> str:
            written[event.about if event is not None else ""] += 1
            return sent(event)

        monkeypatch.setattr(events, "_sent", counted)
        many = [
            EventView(id=f"{10**6 + number}.0", at_us=1, kind="k", about="many", text="x" * 4_000)
            for number in range(KEPT)
        ]
        serving.do(lambda feed: feed.publish(many))
        last = many[-1].id
        found = list(takewhile(lambda event: event.id != last, client.events(many[0].id)))
        assert len(found) == KEPT - 2
        assert written["many"] - len(found) < KEPT // 2
        until(lambda: len(serving.do(lambda feed: feed._bells)) == 1, "the end of the reader that read all")
        stuck.close()
        until(lambda: not serving.do(lambda feed: feed._bells), "the end of the reader that left")
