"""What becomes of a node that was struck out for good, and of the host and the agent that were it."""

from pathlib import Path

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.policy import Policy
from argosy.contracts.talk import ChipsFound, HostFacts
from argosy.server.front import nodes_up
from argosy.server.ground import seat, without
from support.serving import FakeAgent, fleet_of, ground, served, wait, work_until

pytestmark = pytest.mark.slow


class TestRetired:
    def test_its_agent_is_refused_for_good(self, tmp_path: Path) -> None:
        """The agent's key opens nothing, and joining again is refused by name, also by the next server."""

        async def story() -> None:
            async with served(tmp_path) as service:
                agent, _ = await fleet_of(service, 2)
                assert (await service.http.delete("/v1/nodes/north-1")).status_code == 200
                assert (await agent.post("/agent/v1/talk", b"")).status_code == 401
                refused = await agent.join()
                assert (refused.status_code, refused.text.partition(";")[0]) == (
                    422,
                    "node north-1 was retired for good",
                )
            async with served(tmp_path) as service:
                agent.served = service
                assert (await agent.join()).status_code == 422
                names = [node["name"] for node in (await service.http.get("/v1/nodes")).json()]
                assert names == ["north-1", "north-2"]
                assert service.whole.service.loop.ask(nodes_up).result() == ["north-2"]

        wait(story())

    def test_its_name_is_nobody_elses(self, tmp_path: Path) -> None:
        """A host that wishes for the name of a retired node is refused, whatever its agent."""

        async def story() -> None:
            async with served(tmp_path) as service:
                await fleet_of(service, 1)
                await service.http.delete("/v1/nodes/north-1")
                refused = await FakeAgent(service, "host-9").join("north-1")
                assert "may come back as another node" in refused.text

        wait(story())

    def test_its_host_comes_back_as_another_node(self, tmp_path: Path) -> None:
        """With an agent's folder of its own the same host is a node like any other that joins."""

        async def story() -> None:
            async with served(tmp_path) as service:
                await fleet_of(service, 2)
                await service.http.delete("/v1/nodes/north-1")
                again = FakeAgent(service, "host-0-anew")
                assert (await again.join("north-9")).status_code == 200
                await again.talk()
                nodes = {node["name"]: node["observed"] for node in (await service.http.get("/v1/nodes")).json()}
                assert nodes == {"north-1": "retired", "north-2": "up", "north-9": "up"}

        wait(story())

    def test_its_job_goes_on_elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What ran on it is started anew on another node, once its agent was silent and its lease is over."""
        monkeypatch.setattr("argosy.server.desk.DOWN_AFTER_S", 0.5)

        async def story() -> None:
            async with served(tmp_path, policy=Policy(lease_s=0.5, gather_s=0.0)) as service:
                agents = await fleet_of(service, 2)
                job = await service.submit()
                running = await work_until(service, agents, job["id"], "running")
                gone, other = sorted(agents, key=lambda agent: agent.node not in running["nodes"])
                await service.http.delete(f"/v1/nodes/{gone.node}")
                while not other.held:
                    await other.talk(wait_s=0.2)
                assert (await work_until(service, [other], job["id"], "running"))["nodes"] == [other.node]

        wait(story())


class TestSeat:
    def test_a_retired_name_is_told_what_to_do(self) -> None:
        """The refusal names the node and how its host may come back."""
        facts = HostFacts(hostname="h", boot_id="b", chips=(ChipsFound(chip="chip-a", count=2),))
        with pytest.raises(BadInputError, match=r"node north-1 was retired .* another --state folder, and no --node"):
            seat(without(ground(2), {"north-1"}), facts, "north-1", ())
