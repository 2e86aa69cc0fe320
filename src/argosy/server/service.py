"""The service put together: what decides, where agents come to, and what people follow.

Everything that the HTTP API calls hangs here. Must not know HTTP.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from argosy.contracts.event import NodeSeen, PolicyChanged
from argosy.contracts.policy import Policy
from argosy.server.feed import Feed
from argosy.server.front import Front
from argosy.server.heart import Heart
from argosy.server.loop import Committed, wall_us
from argosy.server.rules import refusal_in
from argosy.server.telling import kept_events, noted, told

LOG = logging.getLogger("argosy.server")
WATCH_S = 1.0
SWEEP_S = 30.0
"""In which all nodes are compared, whether anything seems to have changed or not."""
HELD_UP_S = 3.0
"""A watch that is late by more means that the process stood still (stopped, suspended, starved), and heard nobody."""


class Service:
    """One server. Made and started on the event loop that its HTTP server runs on."""

    def __init__(self, heart: Heart) -> None:
        self.heart = heart
        self.store, self.loop = heart.store, heart.loop
        self.feed = Feed(lambda seq: kept_events(self.store, self._names(), seq))
        self.front = Front(heart, self._noted)
        self._events: asyncio.AbstractEventLoop | None = None
        self._watcher: asyncio.Task[None] | None = None
        heart.now = lambda: self.front.hosts.ground
        heart.touch, heart.heard, heart.offers.note = self._touch, self._heard, self._noted

    async def start(self, policy: Policy | None, *, retire_missing: bool = False) -> None:
        """Begin: take over what the last server left, describe the fleet, set the policy where one is given.

        Raises ArgosyError; then it has to be closed all the same. retire_missing: see Hosts.describe.
        """
        self._events = asyncio.get_running_loop()
        self.heart.start()
        await asyncio.to_thread(self.front.hosts.describe, retire_missing=retire_missing)
        if policy is not None:
            refusal_in(await asyncio.wrap_future(self.loop.send(PolicyChanged, policy=policy)))
        await asyncio.to_thread(self.heart.offers.begin)
        await self.front.begin()
        self._watcher = asyncio.create_task(self._watch())

    def release(self) -> None:
        """Let everybody who waits for an answer go, since this server is about to end."""
        self.feed.close()
        self.front.desk.close()

    async def close(self) -> None:
        """End; whatever runs goes on."""
        if self._watcher is not None:
            self._watcher.cancel()
        self.feed.close()
        await asyncio.to_thread(self.heart.close)

    def _heard(self, committed: Committed) -> None:
        """Tell people of a record; called in the loop's thread."""
        record, state = committed.record, committed.state
        events = list(told(record, state.nodes.name))
        if isinstance(record.event, PolicyChanged):
            self.front.desk.lease_s = state.policy.lease_s
        if events and self._events is not None:
            self._events.call_soon_threadsafe(self.feed.publish, events)

    def _names(self) -> tuple[str, ...]:
        return self.loop.ask(lambda state: tuple(state.nodes.name)).result()

    def _touch(self, nodes: Iterable[str]) -> None:
        if self._events is not None:
            self._events.call_soon_threadsafe(self.front.desk.touch, tuple(nodes))

    def _noted(self, kind: str, about: str, text: str) -> None:
        """Tell people what is in no record; from any thread. Words of jobs are not logged here."""
        if not kind.startswith("job."):
            LOG.info("%s %s: %s", kind, about, text)
        asked = self.loop.ask(lambda state: noted(state, kind, about, text, wall_us()))
        asked.add_done_callback(self._publish)

    def _publish(self, found: "Future[Any]") -> None:
        if self._events is not None and found.exception() is None:
            self._events.call_soon_threadsafe(self.feed.note, found.result())

    def _again(self, node: str, done: "Future[Any]") -> None:
        if self._events is not None and done.exception() is not None:
            self._events.call_soon_threadsafe(self.front.desk.expect, (node,))

    async def _watch(self) -> None:
        """See nodes go down, and compare some of all."""
        looked_s = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_S)
            held_up_s = time.monotonic() - looked_s - WATCH_S
            looked_s = time.monotonic()
            if held_up_s > HELD_UP_S:
                LOG.warning("the server was held up for %.1f s; nodes' silence is counted without it", held_up_s)
                self.front.desk.excuse(held_up_s)
            try:
                self._look()
            except Exception:  # whatever it is, nodes must not go down unseen from now on
                LOG.exception("nodes could not be looked after; tried again in %g s", WATCH_S)

    def _look(self) -> None:
        for node in self.front.desk.silent():
            if node not in self.front.hosts.ground.nodes and not self.front.desk.held_of(node):
                continue  # retired, and nothing runs there that would have to be followed
            sent = self.loop.send(NodeSeen, node=node, observed="down")
            # What could not be written is seen again after another silence.
            sent.add_done_callback(partial(self._again, node))
        self.front.desk.sweep(WATCH_S / SWEEP_S)
