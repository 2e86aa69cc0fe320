"""How messages share a byte stream: one JSON object a line.

Pure: bytes come in, whole lines come out; sockets and pipes belong to the callers. A line has a stated bound, so a
broken peer can't fill memory.
"""

from argosy.contracts.errors import InfrastructureError

MAX_LINE_BYTES = 256 * 1024 * 1024
"""The longest line accepted: a Launch names every rank of its plan, about 100 bytes each."""


class LineBuffer:
    """What has arrived of a stream so far; `feed` hands out the lines that are whole.

    limit_bytes: the longest line that is accepted.
    """

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what arrived, return the lines that it completes, without their newline.

        Raises InfrastructureError when a line is longer than the limit.
        """
        head, *rest = data.split(b"\n")
        self._pending += head
        if len(self._pending) > self._limit_bytes:
            raise InfrastructureError(f"a message is longer than {self._limit_bytes:,} bytes; the other side is broken")
        if not rest:
            return []
        lines = [bytes(self._pending), *rest[:-1]]
        self._pending = bytearray(rest[-1])
        return lines
