"""A service with one agent on a real socket, on a thread of its own."""

import asyncio
import threading
from pathlib import Path

import uvicorn

from argosy.server.place import listen
from support.serving import fleet_of, served


class Serving(threading.Thread):
    """A service with one agent on a real socket, on a thread of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.ready, self.url, self.token = folder, threading.Event(), "", ""
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        """Serve until told to end."""
        asyncio.run(self.serve())

    def begin(self) -> "Serving":
        """Serve from now on."""
        self.start()
        assert self.ready.wait(60)
        return self

    def end(self) -> None:
        """End, and wait for it."""
        if self.server is not None:
            self.server.should_exit = True
        self.join(60)

    async def serve(self) -> None:
        """Serve until told to end."""
        async with served(self.folder) as service:
            await fleet_of(service, 1)
            with listen("127.0.0.1", 0) as listener:
                self.url, self.token = f"http://127.0.0.1:{listener.getsockname()[1]}", service.token
                self.server = uvicorn.Server(uvicorn.Config(service.whole.app, log_level="error", lifespan="off"))
                self.ready.set()
                await self.server.serve(sockets=[listener])
