"""One node's child of the fork server: forks and signals its ranks, says how they ended, kills them without agent.

Talks over one connection in the words of `contracts.launching`. A connection may instead ask for a TCPStore, which
then is all that this process does.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import (
    ForkRank,
    HostStore,
    LoadLaunch,
    RankEnded,
    ServerFailed,
    ServerReady,
    ServerReply,
    ServerRequest,
    SignalRanks,
    StoreReady,
    read_request,
    write_line,
)
from argosy.contracts.messages import Launch
from argosy.train.rankprocess import Entry, SignalPipe, become_rank, die_with_parent

RECEIVE_BYTES = 1 << 16
DESCRIPTORS_MAX = 253  # Linux passes no more in one message (SCM_MAX_FD)
END_S = 5.0


def serve(connection: socket.socket, entry: Entry) -> int:
    """Serve one connection until it ends; returns the exit code of this process."""
    server = NodeServer(connection, entry)
    try:
        server.run()
    except OSError:
        pass  # the agent is gone, which ends this process anyway
    finally:
        server.end_ranks()
    return 0


class NodeServer:
    """The ranks of one node and the connection to their agent."""

    def __init__(self, connection: socket.socket, entry: Entry) -> None:
        self._connection = connection
        self._entry = entry
        self._lines = LineBuffer()
        self._descriptors: deque[int] = deque()
        self._pids: dict[int, int] = {}
        self._launch: Launch | None = None
        self._store: object = None  # lives as long as this process
        self._signals = SignalPipe((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT))

    def run(self) -> None:
        """Answer requests and report ended ranks until the connection ends or a signal asks to stop."""
        self._reply(ServerReady(pid=os.getpid()))
        while True:
            readable, _, _ = select.select([self._connection.fileno(), self._signals.fileno()], [], [])
            if self._signals.fileno() in readable and self._signals.read() - {signal.SIGCHLD}:
                return
            for ended in self._reap():
                self._reply(ended)
            if self._connection.fileno() in readable and not self._receive():
                return

    def end_ranks(self) -> None:
        """Kill every rank that is left and wait, a bounded time, until the kernel says they are gone."""
        self._signal(signal.SIGKILL)
        deadline = time.monotonic() + END_S
        while self._pids and time.monotonic() < deadline:
            select.select([self._signals.fileno()], [], [], 0.05)
            self._signals.read()
            self._reap()

    def _receive(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(
            self._connection, RECEIVE_BYTES, DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
        )
        self._descriptors.extend(descriptors)
        for line in self._lines.feed(data):
            self._handle(read_request(line))
        return bool(data)

    def _handle(self, request: ServerRequest) -> None:
        match request:
            case LoadLaunch():
                self._launch = request.launch
            case ForkRank():
                self._fork(request)
            case SignalRanks():
                self._signal(request.number)
            case HostStore():
                self._host_store(request)

    def _fork(self, request: ForkRank) -> None:
        report, log = self._descriptors.popleft(), self._descriptors.popleft()
        parent = os.getpid()
        try:
            if self._launch is None or request.rank in self._pids:
                raise InfrastructureError("asked to fork a rank twice, or before a launch was loaded")
            with self._signals.held():
                pid = os.fork()
                if pid == 0:
                    self._become_rank(parent, self._launch, request, report, log)
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)  # in both processes, so that a signal sent next can't miss it
            self._pids[request.rank] = pid
        except (OSError, InfrastructureError) as error:
            self._reply(ServerFailed(rank=request.rank, text=f"can't fork rank {request.rank}: {error}"))
        finally:
            os.close(report)
            os.close(log)

    def _become_rank(self, parent: int, launch: Launch, request: ForkRank, report: int, log: int) -> None:
        try:
            os.setpgid(0, 0)
            die_with_parent(parent, f"argosy-rank-{request.rank}")
            self._connection.close()
            self._signals.close()
            for descriptor in self._descriptors:
                os.close(descriptor)
            become_rank(self._entry, launch, request.rank, report, log, request.threads)
        finally:
            os._exit(70)

    def _signal(self, number: int) -> None:
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def _reap(self) -> list[RankEnded]:
        """Return the ranks that ended; what one started itself and left behind in its process group is killed."""
        ended = []
        for rank, pid in tuple(self._pids.items()):
            # WNOWAIT leaves a zombie, so that its number can't be given to another before the group is signalled
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            del self._pids[rank]
            ended.append(RankEnded(rank=rank, code=os.waitstatus_to_exitcode(status)))
        return ended

    def _host_store(self, request: HostStore) -> None:
        try:
            self._store, port = open_store(request.host, request.port)
        except (OSError, RuntimeError, ImportError) as error:
            where = f"{request.host}:{request.port}"
            hint = "choose another port, or 0 for any free one" if request.port else "name an address of this machine"
            self._reply(ServerFailed(text=f"can't host the store on {where}: {error}; {hint}"))
            return
        self._reply(StoreReady(port=port))

    def _reply(self, message: ServerReply) -> None:
        self._connection.sendall(write_line(message))


def open_store(host: str, port: int) -> tuple[object, int]:
    """Host a TCPStore on this address only; returns it (it lives as long as the object) and its port.

    Raises OSError when the address can't be bound.
    """
    # our own listening socket, since the store's would take connections from every network of the machine
    listener = _bind(host, port)
    bound = int(listener.getsockname()[1])
    import torch.distributed as dist

    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, bound, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    return store, bound


def _bind(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(socket.SOMAXCONN)
    except OSError:
        listener.close()
        raise
    return listener
