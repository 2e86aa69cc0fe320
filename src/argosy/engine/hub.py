"""Where the agents of an engine connect: one listening socket, one connection a node, lines in and out.

Single-threaded: nothing is read unless `poll` is called, which is the back-pressure on agents and, through them, on
ranks.
"""

import contextlib
import selectors
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from argosy.agent.wire import RECEIVE_BYTES, UNIX_PREFIX, check_unix_path
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import Downward, read_upward, write_line
from argosy.contracts.messages import Upward

SEND_S = 60.0
BACKLOG = 4096


@dataclass(slots=True, kw_only=True, eq=False)
class _Line:
    """One connection. node: empty until its first message names it."""

    connection: socket.socket
    node: str = ""
    lines: LineBuffer = field(default_factory=LineBuffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One thing an agent did. message: None when its connection ended; why: what was wrong with it, if anything."""

    node: str
    message: Upward | None
    why: str = ""


class Hub:
    """Talks with the agents of the named nodes over a Unix socket."""

    def __init__(self, path: Path, nodes: Collection[str]) -> None:
        self._path = path
        self._nodes = frozenset(nodes)
        self._lines: dict[str, _Line] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(check_unix_path(str(path)))
            self._listener.listen(BACKLOG)
        except OSError as error:
            self._listener.close()
            raise InfrastructureError(f"can't listen for agents on {path}: {error.strerror or error}") from error
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    @property
    def address(self) -> str:
        """What an agent is told to connect to."""
        return f"{UNIX_PREFIX}{self._path}"

    def poll(self, timeout_s: float) -> list[Heard]:
        """Wait until something is heard, at most this long, and return it in the order it came."""
        heard: list[Heard] = []
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                connection, _ = self._listener.accept()
                connection.settimeout(SEND_S)
                self._selector.register(connection, selectors.EVENT_READ, _Line(connection=connection))
            else:
                heard += self._read(key.data)
        return heard

    def knows(self, node: str) -> bool:
        """Tell whether a node's agent is connected and has said its name."""
        return node in self._lines

    def waiting(self) -> bool:
        """Tell whether something can be read at once."""
        return bool(self._selector.select(0))

    def send(self, node: str, message: Downward) -> None:
        """Tell an agent. Raises InfrastructureError when it isn't there or doesn't take the message in SEND_S."""
        line = self._lines.get(node)
        try:
            if line is None:
                raise OSError("not connected")
            line.connection.sendall(write_line(message))
        except OSError as error:
            raise InfrastructureError(
                f"the agent of node {node} can't be reached: {error.strerror or error}"
            ) from error

    def close(self) -> None:
        """Hang up on everybody; agents end when they see it."""
        for key in tuple(self._selector.get_map().values()):
            if isinstance(key.data, _Line):
                key.data.connection.close()
        self._selector.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _read(self, line: _Line) -> list[Heard]:
        heard: list[Heard] = []
        try:
            data = line.connection.recv(RECEIVE_BYTES)
            for text in line.lines.feed(data):
                message = read_upward(text)
                self._name(line, message.node)
                heard.append(Heard(node=line.node, message=message))
            if data:
                return heard
            why = ""
        except (OSError, InfrastructureError) as error:
            why = str(error)
        return heard + self._drop(line, why)

    def _name(self, line: _Line, node: str) -> None:
        """Learn from its first message whose connection this is."""
        if line.node == node:
            return
        if line.node or node not in self._nodes or node in self._lines:
            raise InfrastructureError(f"an agent calls itself {node!r}, which is unknown here or connected already")
        line.node = node
        self._lines[node] = line

    def _drop(self, line: _Line, why: str) -> list[Heard]:
        self._selector.unregister(line.connection)
        with contextlib.suppress(OSError):
            line.connection.close()
        self._lines.pop(line.node, None)
        return [Heard(node=line.node, message=None, why=why)] if line.node else []
