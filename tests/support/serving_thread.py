"""A service with one agent on a real socket, on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import uvicorn

from argosy.server.feed import Feed
from argosy.server.place import listen
from support.serving import fleet_of, served

T = TypeVar("T")


class Serving(threading.Thread):
    """A service with one agent on a real socket, on a thread of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.ready, self.url, self.token = folder, threading.Event(), "", ""
        self.server: uvicorn.Server | None = None
        self.feed: Feed | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Serve until told to end."""
        asyncio.run(self.serve())

    def begin(self) -> "Serving":
        """Serve from now on."""
        self.start()
        assert self.ready.wait(60)
        return self

    def do(self, work: Callable[[Feed], T]) -> T:
        """Do something with the feed, on its own thread."""
        done: Future[T] = Future()
        assert self.loop is not None
        assert self.feed is not None
        self.loop.call_soon_threadsafe(lambda: done.set_result(work(self.feed)))
        return done.result(60)

    def end(self) -> None:
        """End, and wait for it."""
        if self.server is not None:
            self.server.should_exit = True
        self.join(60)

    async def serve(self) -> None:
        """Serve until told to end."""
        async with served(self.folder) as service:
            await fleet_of(service, 1)
            self.feed, self.loop = service.whole.service.feed, asyncio.get_running_loop()
            with listen("127.0.0.1", 0) as listener:
                self.url, self.token = f"http://127.0.0.1:{listener.getsockname()[1]}", service.token
                self.server = uvicorn.Server(uvicorn.Config(service.whole.app, log_level="error", lifespan="off"))
                self.ready.set()
                await self.server.serve(sockets=[listener])
