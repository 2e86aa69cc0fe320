"""Agents on the server's own host: which nodes get one, how they are let in, and when they are started again."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from argosy.engine import localagents
from argosy.engine.localagents import LocalAgents


class Started:
    """What was started. living: whether processes go on running."""

    def __init__(self, monkeypatch):
        self.children, self.living = [], True
        monkeypatch.setattr(localagents, "Child", self.start)

    def start(self, name, module, arguments, log, *, variables):
        """Note a process instead of starting it."""
        self.children.append((arguments[arguments.index("--node") + 1], variables))
        process = SimpleNamespace(poll=lambda: None if self.living else 1)
        return SimpleNamespace(process=process, ending=lambda _s: f"{name} ended")


@pytest.fixture
def started(monkeypatch):
    """Note what is started."""
    return Started(monkeypatch)


def look(agents, times=1):
    """Let it look after its agents so often."""

    async def story():
        looked = 0

        async def rest(_seconds):
            nonlocal looked
            looked += 1
            if looked == times:
                raise asyncio.CancelledError

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(asyncio.CancelledError):
            patch.setattr(localagents.asyncio, "sleep", rest)
            await agents.run()

    asyncio.run(story())


class TestAgents:
    def test_each_node_gets_one_with_the_token(self, tmp_path, started):
        """One a node, however often it looks, each let in by the token in its environment alone."""
        agents = LocalAgents(lambda: ["n1", "n2"], tmp_path / "agents", "http://s")
        agents.token = "secret"
        look(agents, 3)
        assert started.children == [(name, {"ARGOSY_JOIN_TOKEN": "secret"}) for name in ("n1", "n2")]

    def test_a_node_that_left_gets_none(self, tmp_path, started):
        """An agent that ended because its node was retired is not started again."""
        nodes = ["n1"]
        agents = LocalAgents(lambda: nodes, tmp_path / "agents", "http://s")
        look(agents)
        started.living = False
        nodes.clear()
        look(agents, 2)
        assert len(started.children) == 1
