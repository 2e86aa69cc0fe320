"""The processes of a local engine: one fork server, an agent a node, the hub they talk to, a private folder.

Knows nothing of ranks, plans or launches. Whatever ends this process ends all of these: they see their connection
close.
"""

import os
import select
import shutil
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import Downward, ServerFailed, ServerReply, read_reply
from argosy.contracts.messages import AgentReady, Failed
from argosy.engine.children import Child, end_all
from argosy.engine.hub import Heard, Hub

POLL_S = 0.2
END_S = 5.0
AGENT_MODULE = "argosy.agent"
FORK_SERVER_MODULE = "argosy.train.forkserver"


class Crew:
    """Agents and fork server, from their start to their end.

    nodes: each gets an agent. logs: folder of their logs, which exists. entry, preload: of the fork server. Raises
    InfrastructureError when a folder, socket or process can't be made, or the fork server says nothing by
    start_timeout_s.
    """

    def __init__(
        self, nodes: Collection[str], logs: Path, *, entry: str, preload: Sequence[str], start_timeout_s: float
    ) -> None:
        self._logs = logs
        self._start_timeout_s = start_timeout_s
        self._private = private_directory()
        self._fork_server: Child | None = None
        self._replies = LineBuffer()
        self._agents: dict[str, Child] = {}
        self._ready: set[str] = set()
        self.lost: dict[str, str] = {}
        self._hub = Hub(self._private / "engine", nodes)
        try:
            self._fork_server = self._start_fork_server(entry, preload)
            for name in nodes:
                self._agents[name] = self._start_agent(name)
        except BaseException:
            self.close()
            raise

    @property
    def private(self) -> Path:
        """Folder that only this user can enter, in memory where the system has that; it goes when the crew ends."""
        return self._private

    @property
    def fork_socket(self) -> Path:
        """Where the fork server listens."""
        return self._private / "fork"

    def await_ready(self, nodes: Collection[str], deadline_s: float) -> list[Heard]:
        """Wait until these nodes' agents can start ranks; returns what was heard meanwhile.

        deadline_s: on `time.monotonic()`. Raises InfrastructureError when one is lost, the fork server can't work, or
        time is up.
        """
        heard: list[Heard] = []
        while missing := [name for name in nodes if name not in self._ready]:
            self._hear_fork_server(0)  # first: agents that are lost may be lost because of it
            for name in missing:
                if name in self.lost:
                    raise InfrastructureError(self.lost[name])
            heard += self.poll(POLL_S)
            if time.monotonic() > deadline_s:
                raise InfrastructureError(
                    f"no word from the agent of {', '.join(missing)} within {self._start_timeout_s:g} s of the start; "
                    f"the machine may be overloaded: see {self._logs}"
                )
        return heard

    def poll(self, timeout_s: float) -> list[Heard]:
        """Wait for messages, at most this long, and keep the books on who is ready and who is lost."""
        heard = self._hub.poll(timeout_s) or self._dead_unheard()
        for one in heard:
            match one.message:
                case AgentReady():
                    self._ready.add(one.node)
                case Failed(rank=-1, text=text):
                    self.lost[one.node] = text
                case None:
                    self._ready.discard(one.node)
                    ending = one.why or self._agents[one.node].ending(END_S)
                    self.lost.setdefault(one.node, f"node {one.node} is lost: {ending}")
        return heard

    def _dead_unheard(self) -> list[Heard]:
        """Find agents that ended before they connected: no connection tells of them."""
        unknown = [name for name in self._agents if name not in self.lost and not self._hub.knows(name)]
        dead = [name for name in unknown if self._agents[name].process.poll() is not None]
        if dead and self._hub.waiting():  # one may have connected and said why meanwhile
            return []
        return [Heard(node=name, message=None) for name in dead]

    def send(self, node: str, message: Downward) -> None:
        """Tell a node's agent; raises InfrastructureError when it can't be reached."""
        self._hub.send(node, message)

    def kill(self, node: str) -> None:
        """Kill a node's agent; its connection to the fork server closes, which kills its ranks."""
        self._agents[node].kill()

    def close(self) -> None:
        """End every process and remove the sockets; ranks that still run are killed."""
        self._hub.close()
        if self._fork_server is not None and not self._ready:
            self._fork_server.kill()  # it may still load, deaf to all else, and has no ranks
        children = [*self._agents.values(), *([self._fork_server] if self._fork_server else [])]
        end_all(children, END_S)
        shutil.rmtree(self._private, ignore_errors=True)

    def _start_fork_server(self, entry: str, preload: Sequence[str]) -> Child:
        """Start it and wait until its socket exists, which takes no torch."""
        arguments = [str(self.fork_socket), "--entry", entry, "--preload", ",".join(preload), "--owns-directory"]
        log = self._logs / "forkserver.log"
        self._fork_server = Child("the fork server", FORK_SERVER_MODULE, arguments, log, pipes=True)
        deadline_s = time.monotonic() + self._start_timeout_s
        while not self._hear_fork_server(POLL_S):
            if time.monotonic() > deadline_s:
                raise InfrastructureError(f"the fork server said nothing for {self._start_timeout_s:g} s; see {log}")
        return self._fork_server

    def _start_agent(self, name: str) -> Child:
        arguments = ["--node", name, "--connect", self._hub.address, "--forkserver", str(self.fork_socket)]
        return Child(f"the agent of node {name}", AGENT_MODULE, arguments, self._logs / f"agent-{name}.log")

    def _hear_fork_server(self, timeout_s: float) -> list[ServerReply]:
        """Read what the fork server says on its standard output; raises InfrastructureError when it can't work."""
        server = self._fork_server
        if server is None or server.process.stdout is None:
            return []
        descriptor = server.process.stdout.fileno()
        if not select.select([descriptor], [], [], timeout_s)[0]:
            return []
        data = os.read(descriptor, 1 << 16)
        replies = [read_reply(line) for line in self._replies.feed(data)]
        for reply in replies:
            if isinstance(reply, ServerFailed):
                raise InfrastructureError(reply.text)
        if not data and server.process.poll() is not None:
            raise InfrastructureError(server.ending(END_S))
        return replies


def private_directory() -> Path:
    """Make a folder that only this user can enter, in /dev/shm where there is one: paths of sockets must be short."""
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    try:
        return Path(tempfile.mkdtemp(prefix="argosy-", dir=base))
    except OSError as error:
        text = f"can't make a folder for sockets in {base}: {error.strerror}; set TMPDIR to one that can be written"
        raise InfrastructureError(text) from error
