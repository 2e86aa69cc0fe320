"""HTTP as an agent needs it: one kept connection to the server, a body there and a body back, bounded in size and time.

Tells refusals (nobody listens, so no server lives there) from silence (it may live and be cut off), which is what
leases hang on. Knows no message.
"""

import contextlib
import http.client
import ssl
from urllib.parse import urlsplit

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import ANSWER_BYTES_MAX, CONTENT_TYPE

ERROR_CHARACTERS = 300


class ServerGoneError(InfrastructureError):
    """The server's host refuses connections: no server lives there now."""


class ServerSilentError(InfrastructureError):
    """No answer came: the server, its host or the network between may be down."""


class RefusedError(InfrastructureError):
    """The server answered with an error. status: of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def parse_server(url: str) -> tuple[bool, str, int]:
    """Read a server's URL as (encrypted, host, port). Raises BadInputError."""
    refusal = BadInputError(f"server {url!r}: write http://HOST:PORT or https://HOST:PORT")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refusal from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise refusal
    return parts.scheme == "https", parts.hostname, port or (443 if parts.scheme == "https" else 80)


class Courier:
    """One connection, opened when it is needed and again after errors. key: sent as a bearer token; may be empty."""

    def __init__(self, server: str, key: str) -> None:
        self._encrypted, self._host, self._port = parse_server(server)
        self._server, self._key = server, key
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, timeout_s: float) -> bytes:
        """Send a body and return the answer's.

        Raises ServerGoneError, ServerSilentError or RefusedError.
        """
        return self._ask("POST", path, body, ANSWER_BYTES_MAX, timeout_s)

    def get(self, path: str, bytes_max: int, timeout_s: float) -> bytes:
        """Fetch a body; raises as `post` does."""
        return self._ask("GET", path, b"", bytes_max, timeout_s)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: bytes, bytes_max: int, timeout_s: float) -> bytes:
        kept = self._connection is not None
        try:
            return self._ask_once(method, path, body, bytes_max, timeout_s)
        except ServerSilentError as error:
            # A kept connection that the server closed meanwhile says nothing of the server: ask once more.
            if not kept or isinstance(error.__cause__, TimeoutError):
                raise
        return self._ask_once(method, path, body, bytes_max, timeout_s)

    def _ask_once(self, method: str, path: str, body: bytes, bytes_max: int, timeout_s: float) -> bytes:
        headers = {"Content-Type": CONTENT_TYPE}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection = self._open(timeout_s)
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            data = response.read(bytes_max + 1)
        except ConnectionRefusedError as error:
            self.close()
            raise ServerGoneError(f"nobody listens at {self._server}") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ServerSilentError(f"no answer from {self._server}: {str(error) or type(error).__name__}") from error
        if len(data) > bytes_max:
            self.close()
            raise ServerSilentError(f"{self._server} answered with more than {bytes_max:,} bytes")
        if response.status != http.client.OK:
            text = data[:ERROR_CHARACTERS].decode(errors="replace")
            raise RefusedError(response.status, f"{self._server} answered {response.status}: {text}")
        return data

    def _open(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._encrypted:
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(self._host, self._port, context=context)
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port)
        self._connection.timeout = timeout_s
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.settimeout(timeout_s)
        return self._connection
