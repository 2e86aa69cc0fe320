"""One server process: its first tokens, its HTTP server, agents on this host, and an orderly end.

Must not know fleets' files or what plans: it is given both.
"""

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from argosy.engine.localagents import LocalAgents
from argosy.server import place
from argosy.server.assembly import Whole, assemble
from argosy.server.heart import Heart
from argosy.server.planning import Planning
from argosy.server.process_options import Options
from argosy.server.tidy import keep_tidy
from argosy.server.welcome import first_tokens

LEAVE_S = 2
KEEP_ALIVE_S = 75
POLL_S = 0.02
FILES = 65_536
TURN_S = 0.001
"""How long one thread may keep others from Python; the default of 5 ms adds up for those who wait for an answer."""


def serve(options: Options) -> None:
    """Run until SIGTERM or SIGINT. Raises ArgosyError for what is in the way of a beginning."""
    place.make_folder(options.folder)
    sys.setswitchinterval(TURN_S)
    _open_many()
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


def _open_many() -> None:
    """Let this process have as many connections as it may, one an agent, within reason."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), most))


async def _serve(options: Options) -> None:
    with place.listen(options.host, options.port) as listener:
        url = place.url_of(listener)
        heart = Heart(options.folder, options.ground, options.skills)
        if options.restored:
            heart.store.renew()
        whole = assemble(heart, options.folder)
        fleet = whole.service.front.hosts
        agents = LocalAgents(
            lambda: [node for node in options.agents if node in fleet.ground.nodes], options.folder / "agents", url
        )
        tidier = asyncio.create_task(keep_tidy())
        try:
            await whole.service.start(options.policy, retire_missing=options.retire_missing)
            agents.token = await first_tokens(heart, options.folder, options.owner)
            server = _Server(_config(whole))
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, server.end, whole.service.release)
            helper = asyncio.create_task(_after_start(server, options, url, agents, heart.planning))

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
            tidier.cancel()
            await whole.service.close()


async def _after_start(
    server: uvicorn.Server, options: Options, url: str, agents: LocalAgents, planning: Planning
) -> None:
    """Say that the server is ready once it answers, then have the planner loaded and look after the agents here."""
    while not server.started:
        await asyncio.sleep(POLL_S)
    place.write_card(options.folder, place.Card(url=url, pid=os.getpid()))
    options.ready(url)
    planning.warm()
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
