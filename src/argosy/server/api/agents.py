"""Where agents talk: a plain ASGI app with msgpack bodies, beside the API for people and leaner than it.

Reads, authorises and hands on to hosts and desk; must not know what is decided.
"""

import asyncio
import time
from http import HTTPStatus
from typing import Any

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
from argosy.server.bundles import Bundles
from argosy.server.front import Front
from argosy.server.store import Store
from argosy.server.tokens import holder_of

PREFIX = "/agent/v1/"
BODY_S = 30.0
"""How long a body may take to come."""
CHUNK_BYTES = 1 << 20
PLAIN = "text/plain; charset=utf-8"


class AgentsApp:
    """Answers agents. bundles: uploaded code."""

    def __init__(self, store: Store, front: Front, bundles: Bundles) -> None:
        self._store, self._front, self._bundles = store, front, bundles
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self._answer(scope, receive, send)
        except _RefusedError as refusal:
            await _send(send, refusal.status, str(refusal).encode(), PLAIN)
        except BadInputError as error:
            await _send(send, HTTPStatus.UNPROCESSABLE_ENTITY, str(error).encode(), PLAIN)
        except ArgosyError as error:
            await _send(send, HTTPStatus.SERVICE_UNAVAILABLE, str(error).encode(), PLAIN)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = str(scope["path"]), str(scope["method"])
        if method == "POST" and path == JOIN_PATH:
            ask = read_word(await self._bodies.read(receive), JoinAsk)
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
            talk = read_word(await self._bodies.read(receive), Talk)
            said = await self._front.desk.talk(node, talk)
            await _send(send, HTTPStatus.OK, write_word(said), CONTENT_TYPE)
        elif method == "GET" and path.startswith(BUNDLE_PATH):
            await self._give(path.removeprefix(BUNDLE_PATH), node, send)
        else:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"agents don't {method} {path}")

    async def _give(self, name: str, node: str, send: Send) -> None:
        """Send a node the code of its job, a piece at a time."""
        path = self._bundles.path(name)
        if path is None or not await self._bundles.is_for(name, node):
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"no bundle {name[:80]} for a job on node {node}")
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


class Bodies:
    """Reads bodies, within bounds of size and time; one timer watches over all."""

    def __init__(self) -> None:
        # In the order in which they began.
        self._began_s: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._watched = False

    async def read(self, receive: Receive) -> bytes:
        """Read a body."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("bodies are read in tasks")
        self._began_s[task] = time.monotonic()
        if not self._watched:
            self._watch()
        try:
            return await _body(receive)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, f"no body within {BODY_S:g} s") from None
        finally:
            del self._began_s[task]
            self._late.discard(task)

    def _watch(self) -> None:
        """End what takes too long, and look again as long as there is anything to look at."""
        limit_s = time.monotonic() - BODY_S
        for task in [task for task, began_s in self._began_s.items() if began_s <= limit_s]:
            self._late.add(task)
            task.cancel()
        self._watched = bool(self._began_s)
        if self._watched:
            asyncio.get_running_loop().call_later(BODY_S / 10, self._watch)


async def _body(receive: Receive) -> bytes:
    """Read a body, within bounds of size."""
    parts: list[bytes] = []
    size = 0
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


def _start(status: HTTPStatus, size: int, kind: str) -> Message:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(size).encode())]
    return {"type": "http.response.start", "status": int(status), "headers": headers}


async def _send(send: Send, status: HTTPStatus, body: bytes, kind: str) -> None:
    await send(_start(status, len(body), kind))
    await send({"type": "http.response.body", "body": body})
