"""The server killed at random instants with jobs running: nothing acknowledged is lost, no job runs twice."""

import os
import random
import threading
from pathlib import Path

import pytest

from argosy.client import Client
from argosy.control import log
from argosy.control.state import State
from argosy.server.models import Submission
from argosy.server.store import Store
from support.realservice import RealService, real_service, until

KILLS = int(os.environ.get("ARGOSY_KILLS", "5"))
JOBS_A_KILL = 3
SEED = 7
JOB = 'kind: run\nname: {name}\ncommand: "echo {name} >> {marks}; sleep 1"\n'


@pytest.mark.slow
@pytest.mark.timeout(300 + 40 * KILLS)
class TestKill:
    def test_a_server_killed_at_any_instant_loses_nothing(self, tmp_path: Path) -> None:
        """Every acknowledged job runs once and ends well, and the log replays to the same state."""
        dice = random.Random(SEED)
        with real_service(tmp_path) as service:
            client = service.serve()
            until(client, lambda: all(node.observed == "up" for node in client.nodes()))
            for kill in range(KILLS):
                acknowledged = hand_in_while_killing(service, client, kill, dice)
                assert len(set(acknowledged)) == JOBS_A_KILL
            until(client, lambda: not client.jobs(states=("waiting", "reserved", "preparing", "running")).jobs)
            jobs = client.jobs(limit=1_000).jobs
            assert sorted(job.name for job in jobs) == sorted(names(KILLS))
            assert {job.reason for job in jobs} == {"done"}
            assert [job.retries for job in jobs if job.retries] == []
            assert sorted((tmp_path / "marks").read_text().split()) == sorted(names(KILLS))
            service.end()
        assert replays(Store(service.state / "argosy.sqlite"))


def hand_in_while_killing(service: RealService, client: Client, kill: int, dice: random.Random) -> list[str]:
    """Hand jobs in while the server is killed after so many events; gives the ids that were acknowledged."""
    acknowledged: list[str] = []
    marks = service.folder / "marks"

    def hand_in() -> None:
        for number in range(JOBS_A_KILL):
            name = f"job-{kill}-{number}"
            document = JOB.format(name=name, marks=marks)
            acknowledged.append(client.submit(Submission(document=document), key=name).id)

    handing = threading.Thread(target=hand_in)
    seen = dice.randrange(1, 6 * JOBS_A_KILL)
    events = Client(client.address).events(after=str(client.status().seq))
    handing.start()
    for number, _ in enumerate(events, 1):
        if number >= seen:
            break
    service.kill()
    service.serve()
    handing.join()
    return acknowledged


def names(kills: int) -> list[str]:
    """List the jobs of all rounds."""
    return [f"job-{kill}-{number}" for kill in range(kills) for number in range(JOBS_A_KILL)]


def replays(store: Store) -> bool:
    """Decide the whole log anew: the same has to come of every record."""
    state = State()
    return all(log.decide_again(state, log.read_record(line)) for line in store.lines_after(0, 1_000_000))
