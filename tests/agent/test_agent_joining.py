"""How an agent begins: its folder, and a server that isn't there yet."""

import logging
from pathlib import Path

import pytest

from argosy.agent import joining
from argosy.agent.host import free_port
from argosy.agent.service import AgentOptions, Service
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import HostFacts

FACTS = HostFacts(hostname="h", boot_id="b")


class TestFolder:
    def test_one_that_can_not_be_used_is_told(self, tmp_path):
        """A folder in which the agent can't take its lock is named, with what to do."""
        (tmp_path / "lock").mkdir()
        options = AgentOptions(server="http://127.0.0.1:1", state=tmp_path, facts=FACTS, fork_folder=Path("/none"))
        with pytest.raises(InfrastructureError, match=r"can't use the agent's folder .*--state names another"):
            Service(options)


class TestPatience:
    def test_waiting_for_a_server_is_told_once(self, tmp_path, monkeypatch, caplog):
        """An agent that waits for its server says so at once, and not again at every try."""
        monkeypatch.setattr(joining, "AGAIN_S", 0.01)
        caplog.set_level(logging.INFO, "argosy.agent")
        server = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        with pytest.raises(InfrastructureError, match="nobody listens"):
            joining.join(server, tmp_path, FACTS, token="t", node="", patience_s=0.1)
        assert [record.getMessage().partition(";")[0] for record in caplog.records] == [f"nobody listens at {server}"]
