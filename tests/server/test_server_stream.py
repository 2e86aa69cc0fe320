"""Events over a real connection: every one once, in order, from wherever a reader was."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from argosy.client import Address, Client
from argosy.server.feed import place_of
from argosy.server.models import EventView, Submission
from support.serving import RUN_JOB
from support.serving_thread import Serving

pytestmark = pytest.mark.slow


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Give a client of a service."""
    thread = Serving(tmp_path).begin()
    with Client(Address(url=thread.url, token=thread.token)) as made:
        yield made
    thread.end()


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
