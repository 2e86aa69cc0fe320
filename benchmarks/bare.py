"""An HTTP server with nothing behind it: reads a body, answers an agent's talk with the same words each time.

What the service's heartbeats cost is held against this. Writes its URL into the file that it is given.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from argosy.contracts.talk import Answer, write_word
from argosy.server import place

SAME = write_word(Answer(term=1, lease_s=30.0))
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/msgpack"), (b"content-length", str(len(SAME)).encode())],
}


async def echo(_scope: Any, receive: Any, send: Any) -> None:
    """Answer."""
    await receive()
    await send(START)
    await send({"type": "http.response.body", "body": SAME})


async def serve(path: Path) -> None:
    """Serve until ended."""
    with place.listen("127.0.0.1", 0) as listener:
        config = uvicorn.Config(
            echo, log_level="warning", access_log=False, lifespan="off", server_header=False, timeout_keep_alive=75
        )
        written = path.with_suffix(".part")
        written.write_text(json.dumps({"url": place.url_of(listener)}))
        written.rename(path)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
