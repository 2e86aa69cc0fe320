"""The agent of one node: the loop between the engine that says what to start and the fork server that starts it.

One thread, one `select` loop, nothing that blocks for long. Back-pressure: while more than OUTBOX_BYTES wait for the
engine, reports of ranks are left in their pipes (64 KiB each), where `report` then blocks. Never outlives the
engine's connection: when that ends the agent ends, its connection to the fork server with it, and so every rank.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from argosy.agent.ranks import Rank, RankServer
from argosy.agent.wire import RECEIVE_BYTES, Outbox
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import (
    RankEnded,
    ServerFailed,
    ServerReady,
    ServerReply,
    StartRanks,
    StopRanks,
    read_downward,
    read_upward,
    write_line,
)
from argosy.contracts.messages import AgentReady, Failed, Note, RankExited, Upward

OUTBOX_BYTES = 1 << 20
LAST_WORDS_S = 5.0
NOT_STARTED = InfrastructureError.exit_code
"""Exit code reported for a rank that never began."""


class Agent:
    """One node's agent. started_s: `time.monotonic()` when the process began."""

    def __init__(self, node: str, engine: socket.socket, server: RankServer, started_s: float) -> None:
        self._node = node
        self._engine = engine
        self._server = server
        self._started_s = started_s
        self._lines = LineBuffer()
        self._outbox = Outbox(engine)
        self._ranks: dict[int, Rank] = {}
        self._generation = 0
        self._kill_at_s: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(engine, selectors.EVENT_READ, self._hear_engine)
        self._selector.register(server, selectors.EVENT_READ, self._hear_server)

    def run(self) -> int:
        """Work until the engine or the fork server is gone; returns the exit code."""
        try:
            while True:
                self._attend()
                for key, events in self._selector.select(self._patience_s()):
                    if events & selectors.EVENT_WRITE:
                        self._outbox.flush()
                    if events & selectors.EVENT_READ:
                        handle: Callable[[], None] = key.data
                        handle()
                self._kill_late()
        except (EOFError, ConnectionError, TimeoutError):
            return 0  # the engine is gone, perhaps with words of ours in flight
        except InfrastructureError as error:
            self._give_up(str(error))
            return error.exit_code
        finally:
            self._server.close()
            self._engine.close()
            self._selector.close()

    def _attend(self) -> None:
        """Wait for what makes sense now: room in the engine's socket, reports only while the outbox has room."""
        writing = selectors.EVENT_WRITE if self._outbox.size_bytes else 0
        self._selector.modify(self._engine, selectors.EVENT_READ | writing, self._hear_engine)
        listening = self._outbox.size_bytes <= OUTBOX_BYTES
        registered = self._selector.get_map()
        for rank in self._ranks.values():
            if (listening and not rank.silent) == (rank.pipe in registered):
                continue
            if rank.pipe in registered:
                self._selector.unregister(rank.pipe)
            else:
                self._selector.register(rank.pipe, selectors.EVENT_READ, partial(self._hear_rank, rank))

    def _patience_s(self) -> float | None:
        return None if self._kill_at_s is None else max(0.0, self._kill_at_s - time.monotonic())

    def _hear_engine(self) -> None:
        data = self._engine.recv(RECEIVE_BYTES)
        if not data:
            raise EOFError
        for line in self._lines.feed(data):
            match read_downward(line):
                case StartRanks() as request:
                    self._start(request)
                case StopRanks() as request:
                    self._stop(request)

    def _hear_server(self) -> None:
        replies = self._server.replies()
        if replies is None:
            raise InfrastructureError(
                f"node {self._node}: the fork server's process for it ended, and its ranks with it"
            )
        for reply in replies:
            self._handle_reply(reply)

    def _handle_reply(self, reply: ServerReply) -> None:
        match reply:
            case ServerReady():
                startup_s = time.monotonic() - self._started_s
                self._send(AgentReady(node=self._node, pid=os.getpid(), startup_s=startup_s))
            case RankEnded():
                self._end(reply.rank, reply.code)
            case ServerFailed(rank=number) if number >= 0:
                self._send(Failed(rank=number, blame=INFRASTRUCTURE, text=reply.text))
                self._end(number, NOT_STARTED)
            case ServerFailed():
                raise InfrastructureError(reply.text)

    def _hear_rank(self, rank: Rank) -> None:
        if self._ranks.get(rank.number) is rank:  # else it ended in this very round, and its pipe is closed
            self._pass_on(rank, rank.read)

    def _pass_on(self, rank: Rank, read: Callable[[], list[bytes]]) -> None:
        """Send reports upward; one that can't be read is told as a warning instead of stopping the job."""
        try:
            lines = read()
        except InfrastructureError as error:
            self._warn(rank, error)
            return
        for line in lines:
            try:
                self._send(msgspec.structs.replace(read_upward(line), rank=rank.number))
            except InfrastructureError as error:
                self._warn(rank, error)

    def _warn(self, rank: Rank, error: InfrastructureError) -> None:
        self._send(Note(rank=rank.number, level="warning", text=f"a report of rank {rank.number} was dropped: {error}"))

    def _start(self, request: StartRanks) -> None:
        """Start all the ranks asked for; those that can't be started are reported as failed and ended."""
        generation = request.launch.generation
        if generation < self._generation:
            text = (
                f"node {self._node} dropped a launch of generation {generation}; it is in generation {self._generation}"
            )
            self._send(Note(level="warning", text=text))
            return
        if self._ranks:
            ranks = ", ".join(map(str, self._ranks))
            raise InfrastructureError(f"node {self._node}: told to start ranks while these still run: {ranks}")
        self._generation = generation
        self._kill_at_s = None
        started = 0
        try:
            logs = Path(request.log_directory)
            self._server.load(request.launch)
            for number in request.ranks:
                log = logs / f"rank-{number}.log"
                self._ranks[number] = self._server.fork(number, log, threads=request.threads, append=generation > 0)
                started += 1
        except InfrastructureError as error:
            self._send(Failed(rank=request.ranks[started], blame=INFRASTRUCTURE, text=str(error)))
            for number in request.ranks[started:]:
                self._send(RankExited(rank=number, code=NOT_STARTED))

    def _stop(self, request: StopRanks) -> None:
        if not self._ranks:
            return
        sys.stderr.write(f"stopping ranks {', '.join(map(str, self._ranks))}: {request.reason}\n")
        self._server.signal(signal.SIGTERM)
        self._kill_at_s = time.monotonic() + request.grace_s

    def _kill_late(self) -> None:
        if self._kill_at_s is not None and time.monotonic() >= self._kill_at_s:
            self._kill_at_s = None
            self._server.signal(signal.SIGKILL)

    def _end(self, number: int, code: int) -> None:
        """Pass on a rank's last words, then say that it ended: always in this order."""
        rank = self._ranks.pop(number, None)
        if rank is None:
            return
        if rank.pipe in self._selector.get_map():
            self._selector.unregister(rank.pipe)
        self._pass_on(rank, rank.drain)
        self._send(RankExited(rank=number, code=code))
        if not self._ranks:
            self._kill_at_s = None

    def _give_up(self, text: str) -> None:
        """Kill what is left and tell the engine why, as far as it still listens."""
        self._server.close()
        try:
            self._send(Failed(blame=INFRASTRUCTURE, text=text))
            for number in tuple(self._ranks):
                self._send(RankExited(rank=number, code=-signal.SIGKILL))
            self._outbox.drain(LAST_WORDS_S)
        except OSError:
            pass  # then it sees the connection end

    def _send(self, message: Upward) -> None:
        stamped = msgspec.structs.replace(message, node=self._node, generation=self._generation)
        self._outbox.put(write_line(stamped))
