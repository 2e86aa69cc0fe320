"""One server process: its first tokens, its HTTP server, agents on this host, and an orderly end.

Must not know fleets' files or what plans: it is given both.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
import uvloop

from argosy.contracts.policy import Policy
from argosy.engine.localagents import LocalAgents
from argosy.server import place
from argosy.server.assembly import Whole, assemble
from argosy.server.ground import Ground
from argosy.server.heart import Heart
from argosy.server.planning import Skills
from argosy.server.welcome import first_tokens

JOIN_VARIABLE = "ARGOSY_JOIN_TOKEN"
LEAVE_S = 2
KEEP_ALIVE_S = 75
POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a server runs. folder: of its files. port: 0 for any. policy: None keeps the one it has.
    retire_missing: strike nodes out that the fleet no longer has.

    agents: nodes that get an agent on this host. owner: of the first token. ready: is told the URL.
    """

    folder: Path
    host: str
    port: int
    ground: Ground
    skills: Skills
    policy: Policy | None
    retire_missing: bool
    agents: tuple[str, ...]
    owner: str
    ready: Callable[[str], None]


def serve(options: Options) -> None:
    """Run until SIGTERM or SIGINT. Raises ArgosyError for what is in the way of a beginning."""
    place.make_folder(options.folder)
    with place.take_lock(options.folder):
        # A card that is left here is that of a server that was killed.
        (options.folder / place.CARD_NAME).unlink(missing_ok=True)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(options))
        finally:
            (options.folder / place.CARD_NAME).unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """An HTTP server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def end(self, release: Callable[[], None]) -> None:
        """End soon; a second time at once. release: lets those go who wait for an answer."""
        self.force_exit = self.should_exit
        self.should_exit = True
        release()


async def _serve(options: Options) -> None:
    with place.listen(options.host, options.port) as listener:
        url = place.url_of(listener)
        heart = Heart(options.folder, options.ground, options.skills)
        whole = assemble(heart, options.folder)
        agents = LocalAgents(options.agents, options.folder / "agents", url)
        try:
            await whole.service.start(options.policy, retire_missing=options.retire_missing)
            os.environ[JOIN_VARIABLE] = await first_tokens(heart, options.folder, options.owner)
            server = _Server(_config(whole))
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, server.end, whole.service.release)
            helper = asyncio.create_task(_after_start(server, options, url, agents))

            def ended(done: asyncio.Task[None]) -> None:
                if not done.cancelled():
                    server.end(whole.service.release)

            helper.add_done_callback(ended)
            await server.serve(sockets=[listener])
            agents.end()
            if helper.done():
                # It ends by itself only where something is wrong.
                helper.result()
            helper.cancel()
        finally:
            await whole.service.close()


async def _after_start(server: uvicorn.Server, options: Options, url: str, agents: LocalAgents) -> None:
    """Say that the server is ready once it answers, then look after the agents here."""
    while not server.started:
        await asyncio.sleep(POLL_S)
    place.write_card(options.folder, place.Card(url=url, pid=os.getpid()))
    options.ready(url)
    await agents.run()


def _config(whole: Whole) -> uvicorn.Config:
    return uvicorn.Config(
        whole.app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LEAVE_S,
    )
