"""The ranks of one node, seen from its agent: starts them by the fork server, reads reports, hears how they ended.

Knows no torch and no engine. Killing is the fork server's, which is the ranks' parent: this end only asks, and
closing the connection is the request that can't get lost.
"""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from argosy.agent.wire import RECEIVE_BYTES, UNIX_PREFIX, dial
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import (
    ForkRank,
    LoadLaunch,
    ServerReply,
    ServerRequest,
    SignalRanks,
    read_reply,
    write_line,
)
from argosy.contracts.messages import Launch

REPORT_BYTES_MAX = 1 << 20
"""The longest report of a rank, newline included."""

SEND_S = 60.0


@dataclass(slots=True, kw_only=True)
class Rank:
    """One rank that runs. pipe: where its reports come from. silent: it closed its end and will report no more."""

    number: int
    pipe: int
    silent: bool = False
    lines: LineBuffer = field(default_factory=lambda: LineBuffer(REPORT_BYTES_MAX))

    def read(self) -> list[bytes]:
        """Return the whole reports that can be read now, at most one buffer's worth.

        Raises InfrastructureError for a report over the bound; the next report begins after it.
        """
        try:
            data = os.read(self.pipe, RECEIVE_BYTES)
        except BlockingIOError:
            return []
        self.silent = not data
        return self._lines_of(data)

    def drain(self) -> list[bytes]:
        """Return all that a rank which has ended left in its pipe, and close it."""
        reports: list[bytes] = []
        try:
            while data := os.read(self.pipe, RECEIVE_BYTES):
                reports += self._lines_of(data)
        except BlockingIOError:
            pass  # a process that outlived its rank still holds the pipe
        finally:
            os.close(self.pipe)
        return reports

    def _lines_of(self, data: bytes) -> list[bytes]:
        try:
            return self.lines.feed(data)
        except InfrastructureError:
            self.lines = LineBuffer(REPORT_BYTES_MAX)
            raise


class RankServer:
    """The fork server's process for this node."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._connection = dial(f"{UNIX_PREFIX}{path}", timeout_s)
        self._connection.settimeout(SEND_S)
        self._lines = LineBuffer()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._connection.fileno()

    def replies(self) -> list[ServerReply] | None:
        """Read what the server says; None when it is gone."""
        try:
            data = self._connection.recv(RECEIVE_BYTES)
        except ConnectionError:
            return None
        return [read_reply(line) for line in self._lines.feed(data)] if data else None

    def load(self, launch: Launch) -> None:
        """Give the server what the next ranks start from."""
        self._send(LoadLaunch(launch=launch))

    def fork(self, number: int, log: Path, *, threads: int, append: bool) -> Rank:
        """Ask for one rank whose output goes to `log`.

        Raises InfrastructureError when the log can't be written, no pipe can be made or the server is gone; then no
        descriptor stays open.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else os.O_TRUNC)
        try:
            log_end = os.open(log, flags, 0o600)
        except OSError as error:
            raise InfrastructureError(f"rank {number}: can't write its log {log}: {error.strerror}") from error
        try:
            read_end, write_end = _report_pipe(number)
            try:
                self._send(ForkRank(rank=number, threads=threads), write_end, log_end)
            except InfrastructureError:
                os.close(read_end)
                raise
            finally:
                os.close(write_end)
        finally:
            os.close(log_end)
        return Rank(number=number, pipe=read_end)

    def signal(self, number: int) -> None:
        """Send a signal to every rank and what it started."""
        self._send(SignalRanks(number=number))

    def close(self) -> None:
        """Hang up: the server kills what is left and ends."""
        self._connection.close()

    def _send(self, request: ServerRequest, *descriptors: int) -> None:
        line = write_line(request)
        try:
            sent = socket.send_fds(self._connection, [line], descriptors) if descriptors else 0
            if rest := line[sent:]:  # sending nothing fails, too, where the other end has just gone
                self._connection.sendall(rest)
        except OSError as error:
            raise InfrastructureError(
                f"the fork server's process for this node is gone: {error.strerror or error}"
            ) from error


def _report_pipe(number: int) -> tuple[int, int]:
    """Make a rank's pipe: the end that is read, without blocking, and the end that the rank gets."""
    try:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        text = f"rank {number}: can't make the pipe for its reports: {error.strerror}"
        raise InfrastructureError(f"{text}; `ulimit -n` says how many files a process may have open") from error
    os.set_blocking(read_end, False)
    return read_end, write_end
