"""Agents as real processes, runners, and the words they are given."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from argosy.agent.folder import AttemptFolder, Lease, Task, attempt_path
from argosy.contracts.talk import Held, StartRun, StartTrain
from support.talk_server import TalkServer, until

LEASE_S = 60.0


class AgentProcess:
    """`argosy agent` with its own folder; ended at the end of the test."""

    def __init__(self, server: TalkServer, folder: Path, *extra: str, node: str = "n1", token: str = "t") -> None:
        self.server, self.folder, self.node = server, folder, node
        self.command = [sys.executable, "-P", "-m", "argosy.cli.main", "agent", "--join", server.url, "--node", node]
        self.command += ["--state", str(folder), "--chips", "2xcpu", *(extra or ("--cold",))]
        self.command += ["--token", token] if token else []
        self.start()

    def start(self) -> None:
        """Start its process."""
        with (self.folder.parent / f"agent-{self.node}.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill its process; ranks stay."""
        self.process.kill()
        self.process.wait()

    def await_talk(self, count: int = 1) -> None:
        """Wait until it has talked so often."""
        until(lambda: len(self.server.talked(self.node)) >= count, f"talk {count} of {self.node}")

    def log(self) -> str:
        """Read what it logged."""
        return (self.folder.parent / f"agent-{self.node}.log").read_text()


@contextmanager
def agent(server: TalkServer, folder: Path, *extra: str, **options: str) -> Iterator[AgentProcess]:
    """Run an agent; what is left of it and its ranks goes at the end."""
    running = AgentProcess(server, folder / options.get("node", "n1"), *extra, **options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        shutil.rmtree(running.folder, ignore_errors=True)  # runners see their lease gone, and park


def prepared(state: Path, order: StartRun | StartTrain, lease_s: float = LEASE_S, **fields: str) -> AttemptFolder:
    """Make the folder of a generation, its task in it, and a lease."""
    state.mkdir(exist_ok=True, parents=True)
    Lease(state / "lease").extend(time.monotonic() + lease_s)
    folder = AttemptFolder(attempt_path(state, order.attempt, order.generation))
    folder.begin(Task(order=order, node="n1", address="127.0.0.1", state=str(state), **fields))
    return folder


@contextmanager
def runner(folder: AttemptFolder, *, log: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """Run the runner of a folder; killed at the end if it still runs."""
    with open(log or folder.logs / "runner.log", "ab") as said:
        command = [sys.executable, "-P", "-m", "argosy.agent.runner", str(folder.path)]
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_to_end(folder: AttemptFolder) -> Held:
    """Run the runner of a folder to its end; gives what is held then."""
    with runner(folder) as process:
        process.wait(60)
    held = folder.held()
    assert held is not None
    return held


def alive(pid: int) -> bool:
    """Tell whether a process lives, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
