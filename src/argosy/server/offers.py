"""Options asked of the planner when the core asks, and told to it when they come, kept in the same commit.

What is lost here is asked for again when the next server begins. Must not know what becomes of options.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.event import OptionsOffered, OptionsRefused
from argosy.plan.offering import Offering
from argosy.server.briefs import brief_of, put_offering
from argosy.server.ground import Ground
from argosy.server.loop import Loop
from argosy.server.planning import NEVER, Ask, Planning, words_of
from argosy.server.store import Store

LOG = logging.getLogger("argosy.server")
AGAIN_S = 5.0
AGAIN_S_MAX = 300.0
"""How long to wait before the planner is asked again: at first, and at most, when it failed over a job many times."""


class Offers:
    """Asks the planner for one loop. ground: gives the fleet as it is now; workers: read the store meanwhile."""

    def __init__(
        self, store: Store, loop: Loop, planning: Planning, ground: Callable[[], Ground], workers: Executor
    ) -> None:
        self._store, self._loop, self._planning = store, loop, planning
        self._ground, self._workers = ground, workers
        self._failures: dict[str, int] = {}

    def begin(self) -> None:
        """Ask again for what was asked for and has not come."""
        waiting = self._loop.ask(lambda state: [j.id for j in state.jobs.values() if j.asked and j.state != "ended"])
        for job in waiting.result():
            self.ask(job)

    def ask(self, job: str) -> None:
        """Find ways to run a job, in the background."""
        with contextlib.suppress(RuntimeError):  # the service ends; the next one asks
            self._workers.submit(self._ask, job)

    def _ask(self, job: str) -> None:
        try:
            brief = brief_of(self._store, job)
            ask = Ask(job_id=job, job=brief.job, config=brief.config, ground=self._ground())
            self._planning.offer(ask, lambda found: self._planned(job, found))
        except Exception as error:
            self._planned(job, error)

    def _planned(self, job: str, found: Offering | BaseException) -> None:
        """Tell the core; what only went wrong says nothing of the job, which waits until it is planned."""
        if isinstance(found, NEVER):
            self._failures.pop(job, None)
            sent = self._loop.send(OptionsRefused, job=job, text=str(found))
            sent.add_done_callback(lambda done: self._again(done, job))
        elif isinstance(found, Offering):
            self._failures.pop(job, None)
            self._offered(job, found)
        else:
            failures = self._failures[job] = self._failures.get(job, 0) + 1
            wait_s = min(AGAIN_S * 2.0 ** min(failures - 1, 10), AGAIN_S_MAX)
            LOG.error("%s could not be planned, again in %g s: %s", job, wait_s, words_of(found))
            self._later(job, wait_s)

    def _offered(self, job: str, offering: Offering) -> None:
        sent = self._loop.send(
            OptionsOffered,
            along=lambda _state, record: put_offering(job, record.event.seq, offering),
            job=job,
            options=offering.options,
        )
        sent.add_done_callback(lambda done: self._again(done, job))

    def _again(self, done: "Future[Any]", job: str) -> None:
        """Ask again, after a while, where the store took no answer: the core still waits for one."""
        if isinstance(done.exception(), InfrastructureError):
            self._later(job, AGAIN_S)

    def _later(self, job: str, wait_s: float) -> None:
        timer = threading.Timer(wait_s, self.ask, (job,))
        timer.daemon = True
        timer.start()
