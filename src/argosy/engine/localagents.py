"""Agents on the server's own host: one a node, started where none runs, started again when one dies.

They outlive the server, and a later server finds them by their locks; one that talks to another URL is replaced.
Must not know what agents do.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.agent.folder import LEAVE_SIGNAL, LOCK_NAME, lock_holder
from argosy.agent.keys import server_of
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import JOIN_VARIABLE
from argosy.engine.children import Child

LOG = logging.getLogger("argosy.engine")
MODULE = "argosy.cli.main"
WATCH_S = 2.0
AGAIN_S_MAX = 60.0


class LocalAgents:
    """Agents of nodes. nodes: names those that are to have one now. folder: each has its own in it. url: of the server.

    token: by which they join.
    """

    def __init__(self, nodes: Callable[[], Sequence[str]], folder: Path, url: str) -> None:
        self._nodes, self._folder, self._url = nodes, folder, url
        self.token = ""
        self._children: dict[str, Child] = {}
        self._again: dict[str, tuple[float, float]] = {}

    async def run(self) -> None:
        """Keep one agent of each node alive, until cancelled."""
        while True:
            for node in self._nodes():
                self._see(node)
            await asyncio.sleep(WATCH_S)

    def end(self) -> None:
        """Ask all agents here, whoever started them, to end as soon as their ranks have ended."""
        for node in self._nodes():
            self._signal(node, LEAVE_SIGNAL)

    def _see(self, node: str) -> None:
        child = self._children.get(node)
        if child is not None and child.process.poll() is None:
            return
        if lock_holder(self._folder / node / LOCK_NAME):
            if server_of(self._folder / node) not in ("", self._url):
                # It would keep its ranks for a server that is no more, while this one gives their job to others.
                LOG.warning("the agent of %s talks to another URL than %s; it is replaced", node, self._url)
                self._signal(node, signal.SIGTERM)
            return
        now_s = time.monotonic()
        at_s, wait_s = self._again.get(node, (0.0, WATCH_S))
        if now_s < at_s:
            return
        if child is not None:
            LOG.warning("%s; it is started again", child.ending(0.0))
        self._again[node] = (now_s + wait_s, min(2 * wait_s, AGAIN_S_MAX))
        try:
            self._children[node] = self._start(node)
        except (InfrastructureError, OSError) as error:
            LOG.error("the agent of %s can't be started: %s", node, error)

    def _signal(self, node: str, number: int) -> None:
        pid = lock_holder(self._folder / node / LOCK_NAME)
        if pid:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def _start(self, node: str) -> Child:
        folder = self._folder / node
        self._folder.mkdir(exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        arguments = ["agent", "--join", self._url, "--node", node, "--state", str(folder)]
        variables = {JOIN_VARIABLE: self.token}
        return Child(f"the agent of node {node}", MODULE, arguments, self._folder / f"{node}.log", variables=variables)
