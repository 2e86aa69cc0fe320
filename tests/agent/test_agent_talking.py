"""What keeps a node's lease."""

import socket

from argosy.agent.http import Courier
from argosy.agent.talking import Voice
from argosy.contracts.talk import HostFacts


class TestRefusedConnections:
    def test_they_keep_the_lease(self):
        """Where nothing listens at the server's address no server counts this node's silence, so its ranks go on."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        extended = []
        facts = HostFacts(hostname="h", boot_id="b")
        voice = Voice(server=url, key="k", session="s", facts=facts, extend=extended.append, wake=lambda: None)
        voice.over.set()
        assert voice._talk(Courier(url, "k"), 0.0) is None
        assert len(extended) == 1
