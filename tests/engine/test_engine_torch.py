"""Ranks forked from a server that has torch loaded, and the store that it hosts."""

import pytest

from argosy.agent.store import HostedStore
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.launching import DEFAULT_PRELOAD
from argosy.contracts.messages import Failed, Note
from argosy.engine.crew import Crew
from argosy.engine.failure import first_failure
from support.launches import engine, exit_codes, launch

pytestmark = pytest.mark.slow


def run(directory, entry):
    """Run four ranks that share a world."""
    with engine(directory, entry, host_store=True, preload=DEFAULT_PRELOAD) as running:
        running.launch(launch())
        return list(running.messages())


class TestTorch:
    def test_forked_ranks_reduce_over_gloo(self, tmp_path):
        """Ranks find each other through the launch's store and reduce: forking after torch was loaded does no harm."""
        messages = run(tmp_path, "reduce")
        assert [m.text for m in messages if isinstance(m, Note)] == ["sum 6"] * 4
        assert exit_codes(messages) == dict.fromkeys(range(4), 0)

    def test_lost_peers_are_symptoms(self, tmp_path):
        """When a rank is killed amid a collective, gloo's errors on its peers don't hide it."""
        messages = run(tmp_path, "lose_rank_1")
        assert first_failure(messages).rank == 1
        assert exit_codes(messages)[1] == -9
        assert {m.blame for m in messages if isinstance(m, Failed)} <= {"infrastructure"}


class TestStore:
    def test_an_address_of_another_machine(self, tmp_path):
        """An address that isn't this machine's can't host the store, and the error names it."""
        crew = Crew((), tmp_path, entry="support.fake_ranks:train", preload=(), start_timeout_s=60.0)
        try:
            with pytest.raises(InfrastructureError, match=r"can't host the store on 192\.0\.2\.1:0: .*name an address"):
                HostedStore(crew.fork_socket, "192.0.2.1", 0, 60.0)
        finally:
            crew.close()
