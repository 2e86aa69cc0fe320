"""What keeps a node's lease."""

import socket

import pytest

from argosy.agent.http import Courier
from argosy.agent.talking import Voice
from argosy.contracts.talk import HostFacts


class TestRefusedConnections:
    @pytest.mark.parametrize("here", [True, False])
    def test_only_those_of_this_very_host_keep_the_lease(self, monkeypatch, here):
        """Where the server is on another host, a refused connection may come from something in between."""
        monkeypatch.setattr("argosy.agent.talking.is_here", lambda _: here)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        extended = []
        facts = HostFacts(hostname="h", boot_id="b")
        voice = Voice(server=url, key="k", session="s", facts=facts, extend=extended.append, wake=lambda: None)
        voice.over.set()
        assert voice._talk(Courier(url, "k"), 0.0) is None
        assert bool(extended) is here
