"""Where agents talk: a plain ASGI app with msgpack bodies, beside the API for people and leaner than it.

Reads, authorises and hands on to hosts and desk; must not know what is decided.
"""

import asyncio
import re
from http import HTTPStatus
from pathlib import Path

from starlette.types import Message, Receive, Scope, Send

from argosy.contracts.errors import ArgosyError, BadInputError
from argosy.contracts.talk import (
    BUNDLE_PATH,
    CONTENT_TYPE,
    JOIN_PATH,
    TALK_BYTES_MAX,
    TALK_PATH,
    JoinAsk,
    Talk,
    read_word,
    write_word,
)
from argosy.server.front import Front
from argosy.server.store import Store
from argosy.server.tokens import holder_of

PREFIX = "/agent/v1/"
BODY_S = 30.0
"""How long a body may take to come."""
CHUNK_BYTES = 1 << 20


class AgentsApp:
    """Answers agents. bundles: where uploaded code lies."""

    def __init__(self, store: Store, front: Front, bundles: Path) -> None:
        self._store, self._front, self._bundles = store, front, bundles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(scope, receive, send)
        except _RefusedError as refusal:
            await _send(send, refusal.status, str(refusal).encode(), "text/plain; charset=utf-8")
        except BadInputError as error:
            await _send(send, HTTPStatus.UNPROCESSABLE_ENTITY, str(error).encode(), "text/plain; charset=utf-8")
        except ArgosyError as error:
            await _send(send, HTTPStatus.SERVICE_UNAVAILABLE, str(error).encode(), "text/plain; charset=utf-8")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = str(scope["path"]), str(scope["method"])
        if method == "POST" and path == JOIN_PATH:
            ask = read_word(await _body(receive), JoinAsk)
            holder = holder_of(self._store, ask.token)
            if holder is None or holder.role == "user":
                raise _RefusedError(HTTPStatus.UNAUTHORIZED, "this join token is unknown or was taken back")
            answer = await asyncio.to_thread(self._front.hosts.join, ask)
            await _send(send, HTTPStatus.OK, write_word(answer), CONTENT_TYPE)
            return
        node = self._front.hosts.node_of(_key(scope))
        if not node:
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, "this key is unknown; join again")
        if method == "POST" and path == TALK_PATH:
            talk = read_word(await _body(receive), Talk)
            said = await self._front.desk.talk(node, talk)
            await _send(send, HTTPStatus.OK, write_word(said), CONTENT_TYPE)
        elif method == "GET" and path.startswith(BUNDLE_PATH):
            await self._give(path.removeprefix(BUNDLE_PATH), send)
        else:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"agents don't {method} {path}")

    async def _give(self, name: str, send: Send) -> None:
        """Send uploaded code, a piece at a time."""
        path = self._bundles / name
        if not re.fullmatch(r"[0-9a-f]{64}", name) or not path.is_file():
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"no bundle {name[:80]}")
        with path.open("rb") as file:
            size = path.stat().st_size
            await send(_start(HTTPStatus.OK, size, "application/gzip"))
            while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class _RefusedError(Exception):
    """An answer other than the one that was asked for."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def _key(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.decode("latin-1").partition(" ")
            return str(key.strip()) if kind.lower() == "bearer" else ""
    return ""


async def _body(receive: Receive) -> bytes:
    """Read a body, within bounds of size and time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusedError(HTTPStatus.BAD_REQUEST, "the connection ended")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > TALK_BYTES_MAX:
                    raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {TALK_BYTES_MAX} bytes")
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError as error:
        raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"no body within {BODY_S:g} s") from error


def _start(status: HTTPStatus, size: int, kind: str) -> Message:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(size).encode())]
    return {"type": "http.response.start", "status": int(status), "headers": headers}


async def _send(send: Send, status: HTTPStatus, body: bytes, kind: str) -> None:
    await send(_start(status, len(body), kind))
    await send({"type": "http.response.body", "body": body})
