"""A service whose store is lost, or put back from a copy: it has the nodes, and nothing of the former runs on."""

import shutil
from pathlib import Path

import pytest

from argosy.contracts.talk import TALK_PATH, JoinAnswer, read_word
from argosy.server.models import Submission
from support.agents import alive
from support.realservice import real_service, until
from support.serving import FakeAgent, served, wait

FOR_EVER = 'kind: run\nname: old\nnodes: 2\ncommand: "echo $$ >> {pids}; sleep 1000"\n'
ON_ALL = "kind: run\nname: new\nnodes: 2\ncommand: echo new\nchips: {{allow: [{chip}]}}\n"


@pytest.mark.slow
class TestLostStore:
    @pytest.mark.timeout(300)
    def test_the_next_service_begins_anew_on_the_same_agents(self, tmp_path: Path) -> None:
        """Agents that live on join it, end what the former one began, and run its jobs on every node."""
        pids = tmp_path / "pids"
        with real_service(tmp_path) as service:
            client = service.serve()
            job = client.submit(Submission(document=FOR_EVER.format(pids=pids))).id
            until(client, lambda: client.job(job).state == "running" and len(pids.read_text().split()) == 2)
            service.kill()
            for path in service.state.glob("argosy.sqlite*"):
                path.unlink()
            client = service.serve()
            assert client.jobs().jobs == []
            until(client, lambda: all(node.observed == "up" for node in client.nodes()))
            chips = ("h800-sxm", "ascend-910b3")
            jobs = [client.submit(Submission(document=ON_ALL.format(chip=chip))).id for chip in chips]
            until(client, lambda: all(client.job(job).state == "ended" for job in jobs))
            assert [client.job(job).reason for job in jobs] == ["done", "done"]
            assert [pid for pid in pids.read_text().split() if alive(int(pid))] == []


@pytest.mark.slow
class TestRestoredStore:
    def test_agents_join_it_anew_as_the_nodes_they_were(self, tmp_path: Path) -> None:
        """A copy gives numbers of jobs again, and an agent took a former job's end for that of the new one."""

        async def story() -> None:
            folder, copy = tmp_path / "f", tmp_path / "copy"
            async with served(folder) as service:
                agent = FakeAgent(service, "host-a")
                await agent.join()
                former = service.whole.service.store.service
            shutil.copytree(folder, copy)  # of a service that has ended: its store is one whole file
            async with served(copy, restored=True) as service:
                agent.served, node = service, agent.node
                assert (await agent.post(TALK_PATH, b"")).status_code == 401
                answer = read_word((await agent.join()).content, JoinAnswer)
                assert (answer.node, answer.service) == (node, service.whole.service.store.service)
                assert answer.service != former
            async with served(copy) as service:
                assert service.whole.service.store.service == answer.service

        wait(story())
