"""How an agent is reached: addresses, and an outbox that never blocks.

An address is `unix:PATH` or `HOST:PORT`. Knows bytes only; what the lines say is `contracts.launching`.
"""

import select
import socket
import time
from collections import deque

from argosy.contracts.errors import BadInputError, InfrastructureError

UNIX_PREFIX = "unix:"
UNIX_PATH_BYTES_MAX = 107  # sockaddr_un.sun_path, less its closing zero
RECEIVE_BYTES = 1 << 16


def dial(address: str, timeout_s: float) -> socket.socket:
    """Connect to an address; the socket blocks afterwards.

    Raises BadInputError when the address can't be read, InfrastructureError when nobody answers.
    """
    kind, target = parse_address(address)
    connection = socket.socket(kind)
    connection.settimeout(timeout_s)
    try:
        connection.connect(target)
    except OSError as error:
        connection.close()
        raise InfrastructureError(f"nobody answers at {address}: {error.strerror or error}") from error
    connection.settimeout(None)
    return connection


def parse_address(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Read `unix:PATH` or `HOST:PORT` into what a socket takes."""
    if address.startswith(UNIX_PREFIX):
        return socket.AF_UNIX, check_unix_path(address.removeprefix(UNIX_PREFIX))
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInputError(f"address {address!r}: expected unix:PATH or HOST:PORT with a port from 1 to 65535")
    bare = host.strip("[]")
    return (socket.AF_INET6 if ":" in bare else socket.AF_INET), (bare, int(port))


def check_unix_path(path: str) -> str:
    """Return the path of a Unix socket if the system takes it; say how long it may be if not."""
    size = len(path.encode())
    if not 0 < size <= UNIX_PATH_BYTES_MAX:
        raise BadInputError(
            f"socket path {path!r} is {size} bytes long; at most {UNIX_PATH_BYTES_MAX} are allowed: set TMPDIR shorter"
        )
    return path


class Outbox:
    """What is still to be written to a socket; `put` never blocks, `flush` writes what the socket takes now.

    It doesn't refuse anything: the caller stops reading its sources while `size_bytes` is over its limit.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._waiting: deque[memoryview] = deque()
        self.size_bytes = 0

    def put(self, data: bytes) -> None:
        """Queue bytes and write what can be written at once."""
        self._waiting.append(memoryview(data))
        self.size_bytes += len(data)
        self.flush()

    def flush(self) -> None:
        """Write until the socket takes no more. Raises OSError when the other side is gone."""
        while self._waiting:
            try:
                sent = self._connection.send(self._waiting[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self.size_bytes -= sent
            rest = self._waiting[0][sent:]
            if rest:
                self._waiting[0] = rest
            else:
                self._waiting.popleft()

    def drain(self, timeout_s: float) -> None:
        """Write all that waits, for at most this long. Raises OSError when the other side is gone."""
        deadline = time.monotonic() + timeout_s
        while self._waiting and time.monotonic() < deadline:
            select.select([], [self._connection], [], deadline - time.monotonic())
            self.flush()
