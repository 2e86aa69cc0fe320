"""The rendezvous of an attempt: a TCPStore that the fork server hosts for whoever asks and itself knows no torch."""

import socket
from pathlib import Path

from argosy.agent.wire import RECEIVE_BYTES, UNIX_PREFIX, dial
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.framing import LineBuffer
from argosy.contracts.launching import HostStore, ServerFailed, StoreReady, read_reply, write_line


class HostedStore:
    """A TCPStore that lives until `close`. host, port: where ranks reach it.

    Raises InfrastructureError when the address can't be bound or no answer comes within timeout_s.
    """

    def __init__(self, fork_server: Path, host: str, port: int, timeout_s: float) -> None:
        self.host = host
        self._connection = dial(f"{UNIX_PREFIX}{fork_server}", timeout_s)
        self._connection.settimeout(timeout_s)
        try:
            self._connection.sendall(write_line(HostStore(host=host, port=port)))
            self.port = _await_port(self._connection)
        except TimeoutError as error:
            self.close()
            raise InfrastructureError(f"no store within {timeout_s:g} s; the machine may be overloaded") from error
        except OSError as error:
            self.close()
            raise InfrastructureError(f"the fork server is gone while it made the store: {error}") from error
        except InfrastructureError:
            self.close()
            raise

    def close(self) -> None:
        """End the store's process."""
        self._connection.close()


def _await_port(connection: socket.socket) -> int:
    lines = LineBuffer()
    while data := connection.recv(RECEIVE_BYTES):
        for line in lines.feed(data):
            match read_reply(line):
                case StoreReady(port=port):
                    return port
                case ServerFailed(text=text):
                    raise InfrastructureError(text)
    raise InfrastructureError("the process that should host the store ended; see logs/forkserver.log")
