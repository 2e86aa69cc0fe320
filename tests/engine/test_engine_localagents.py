"""Agents on the server's own host: which nodes get one, how they are let in, and when they are started again."""

import asyncio
import contextlib
import signal
from types import SimpleNamespace

import pytest

from argosy.agent.folder import LEAVE_SIGNAL
from argosy.agent.keys import Identity, write_identity
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


class TestFound:
    """Agents that an earlier server of this host started."""

    @pytest.fixture
    def signals(self, monkeypatch):
        """Have an agent, process 77, hold every folder, and note what it is sent."""
        sent = []
        monkeypatch.setattr(localagents, "lock_holder", lambda _path: 77)
        monkeypatch.setattr(localagents.os, "kill", lambda pid, number: sent.append((pid, number)))
        return sent

    def joined(self, folder, url):
        """Let the agent of n1 have joined there."""
        (folder / "n1").mkdir(parents=True)
        write_identity(folder / "n1", Identity(agent="a", server=url))

    def test_one_that_talks_to_this_server_stays(self, tmp_path, started, signals):
        """A server that begins again finds its agents."""
        self.joined(tmp_path, "http://s")
        look(LocalAgents(lambda: ["n1"], tmp_path, "http://s"), 2)
        assert (signals, started.children) == ([], [])

    def test_one_that_talks_to_another_url_is_replaced(self, tmp_path, started, signals, monkeypatch):
        """A server was killed and begun again at another port: its agents went on asking the old one for ever."""
        self.joined(tmp_path, "http://old")
        agents = LocalAgents(lambda: ["n1"], tmp_path, "http://s")
        look(agents)
        assert (signals, started.children) == ([(77, signal.SIGTERM)], [])
        monkeypatch.setattr(localagents, "lock_holder", lambda _path: 0)
        look(agents)
        assert [node for node, _ in started.children] == ["n1"]

    def test_they_stay_for_their_ranks_when_the_server_ends(self, tmp_path, started, signals):
        """`argosy down` ended agents at once; nobody kept the lease then, and ranks were parked half a minute later."""
        LocalAgents(lambda: ["n1"], tmp_path, "http://s").end()
        assert signals == [(77, LEAVE_SIGNAL)]
