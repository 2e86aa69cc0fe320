"""Nothing outlives an engine that is killed without warning."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.launches import wait_for_deaths

PROGRAM = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from argosy.contracts.messages import Note, Ready
    from support.launches import engine, launch

    running = engine(Path(sys.argv[1]), sys.argv[2])
    running.launch(launch())
    messages = running.messages()
    pids, ready = [running._crew._fork_server.pid], 0
    pids += [agent.pid for agent in running._crew._agents.values()]
    while ready < 4:
        message = next(messages)
        if isinstance(message, Ready):
            ready += 1
            pids.append(message.pid)
    print(running._crew.private, *pids, flush=True)
    input()
    """
)


@pytest.fixture
def victim(tmp_path):
    """Start an engine as a process with four ranks deaf to SIGTERM; give it, its folder and what it started."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "wait_stubbornly"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        private, *pids = process.stdout.readline().split()
        yield process, Path(private), [int(pid) for pid in pids]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
class TestDeathOfTheEngine:
    def test_kill_9_leaves_no_process_and_no_socket(self, victim):
        """Agents, fork server and ranks end when the engine is killed, and its folder goes."""
        process, private, pids = victim
        assert len(pids) == 7
        process.kill()
        assert wait_for_deaths(pids) == []
        assert not private.exists()

    def test_even_with_a_stopped_agent(self, victim):
        """Ranks of an agent that is stopped when the engine dies end with the fork server."""
        process, _, pids = victim
        fork_server, first_agent, *rest = pids
        os.kill(first_agent, signal.SIGSTOP)
        process.kill()
        assert wait_for_deaths([fork_server, *rest]) == []
        os.kill(first_agent, signal.SIGCONT)
        assert wait_for_deaths([first_agent]) == []

    def test_ctrl_c_reaches_the_engine_alone(self, victim):
        """Signals to the engine's process group don't touch ranks; the engine decides."""
        _, _, pids = victim
        assert all(os.getpgid(pid) != os.getpgid(0) for pid in pids)
