"""A node whose agent's folder is lost: another agent may be that node, once nobody may count on the former one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from argosy.contracts.event import NodeSeen
from argosy.server import hosts
from argosy.server.loop import wall_us
from support.serving import FakeAgent, Served, fleet_of, served, wait

pytestmark = pytest.mark.slow
HOUR_US = 3_600_000_000


async def lose(service: Served, node: str) -> None:
    """Let a node be down."""
    await asyncio.wrap_future(service.loop.send(NodeSeen, node=node, observed="down"))


class TestTakeover:
    def test_a_node_goes_to_another_agent_after_its_lease(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not before; then the former key opens nothing, the former agent is refused, and the audit log tells."""

        async def story() -> None:
            async with served(tmp_path) as service:
                (former,) = await fleet_of(service, 1)
                fresh = FakeAgent(service, "host-0-anew")
                assert (await fresh.join("north-1")).status_code == 422
                await lose(service, "north-1")
                early = await fresh.join("north-1")
                assert "may be north-1 once its lease has run out" in early.text
                monkeypatch.setattr(hosts, "wall_us", lambda: wall_us() + HOUR_US)
                assert (await fresh.join("north-1")).status_code == 200
                assert (await fresh.talk()).term == 1
                assert (await former.post("/agent/v1/talk", b"")).status_code == 401
                await fresh.talk()
                assert (await former.join("north-1")).status_code == 422
                rows: list[dict[str, Any]] = (await service.http.get("/v1/audit")).json()
                assert [(row["deed"], row["about"]) for row in rows if row["who"] == "join"] == [
                    ("taken over", "north-1"),
                    ("joined", "north-1"),
                ]

        wait(story())

    def test_a_host_without_a_wish_takes_no_lost_node(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A node in repair keeps its name; a new host gets a free one."""
        monkeypatch.setattr(hosts, "wall_us", lambda: wall_us() + HOUR_US)

        async def story() -> str:
            async with served(tmp_path) as service:
                await fleet_of(service, 1)
                await lose(service, "north-1")
                other = FakeAgent(service, "host-9")
                await other.join()
                return other.node

        assert wait(story()) == "north-2"
