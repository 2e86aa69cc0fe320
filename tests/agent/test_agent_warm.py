"""What processes that an agent starts are told by their environment."""

import subprocess

import pytest

from argosy.agent.folder import AttemptFolder
from argosy.agent.keeper import start_runner
from argosy.agent.processes import without_ours
from argosy.agent.warm import WarmServer


@pytest.fixture
def environments(monkeypatch):
    """Have nothing started; gives the environments that were to be given."""
    given = []
    monkeypatch.setenv("ARGOSY_JOIN_TOKEN", "secret")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env=None, **__: given.append(env))
    return given


class TestEnvironment:
    def test_the_agents_own_is_left_out(self):
        """A token stays with the agent; where downloads are kept, and all else, is passed on."""
        told = {"ARGOSY_JOIN_TOKEN": "t", "ARGOSY_CACHE": "/c", "PATH": "/bin"}
        assert without_ours(told) == {"ARGOSY_CACHE": "/c", "PATH": "/bin"}

    def test_a_fork_server_is_not_told_the_token(self, tmp_path, environments):
        """Ranks of `kind: train` have their fork server's environment, so it is given none of the agent's own."""
        WarmServer(tmp_path / "fork").ensure()
        assert environments
        assert "ARGOSY_JOIN_TOKEN" not in environments[0]

    def test_a_runner_is_not_told_the_token(self, tmp_path, environments):
        """Neither is a runner, which needs no token."""
        folder = AttemptFolder(tmp_path)
        folder.logs.mkdir()
        start_runner(folder)
        assert "ARGOSY_JOIN_TOKEN" not in environments[0]
