"""Bounds on what people's requests may bring: size, and time to bring it; wraps any ASGI app."""

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 4 << 20
CHUNK_S = 30.0
"""How long the next piece of a body may take."""


class Limits:
    """Refuses bodies that are too large or too slow. large: paths whose own limit is another's business."""

    def __init__(self, app: ASGIApp, large: tuple[str, ...]) -> None:
        self._app, self._large = app, large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = None if scope["path"] in self._large else BODY_BYTES_MAX
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if most is not None and told.isdigit() and int(told) > most:
            await _refuse(send, 413, f"a body of {int(told):,} bytes; at most {most:,} are taken")
            return
        size, whole, answered = 0, False, False

        async def bounded() -> Message:
            nonlocal size, whole
            # After the body only the end of the connection is waited for, which may take as long as it likes.
            try:
                message = await receive() if whole else await asyncio.wait_for(receive(), CHUNK_S)
            except TimeoutError:
                return await refuse(408, f"nothing came for {CHUNK_S:g} s")
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if most is not None and size > most:
                return await refuse(413, f"a body of more than {most:,} bytes; that is the most that is taken")
            return message

        async def refuse(status: int, detail: str) -> Message:
            nonlocal answered
            if not answered:
                answered = True
                await _refuse(send, status, detail)
            return {"type": "http.disconnect"}

        async def noted(message: Message) -> None:
            # What the app says to a request that was refused here, nobody hears.
            if not answered:
                await send(message)

        await self._app(scope, bounded, noted)


async def _refuse(send: Send, status: int, detail: str) -> None:
    title = {413: "Content Too Large", 408: "Request Timeout"}[status]
    body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail, "problems": []})
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
