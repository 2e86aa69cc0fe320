"""Options asked of the planner when the core asks, and told to it when they come, kept in the same commit.

What is lost here is asked for again when the next server begins. Must not know what becomes of options.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.event import OptionsOffered, OptionsRefused
from argosy.plan.offering import Offering
from argosy.server.briefs import brief_of, put_offering
from argosy.server.ground import Ground
from argosy.server.loop import Loop, Record, State
from argosy.server.planning import Ask, Planning
from argosy.server.store import Statement, Store

LOG = logging.getLogger("argosy.server")
AGAIN_S = 5.0


class Offers:
    """Asks the planner for one loop. ground: gives the fleet as it is now; workers: read the store meanwhile."""

    def __init__(
        self, store: Store, loop: Loop, planning: Planning, ground: Callable[[], Ground], workers: Executor
    ) -> None:
        self._store, self._loop, self._planning = store, loop, planning
        self._ground, self._workers = ground, workers

    def begin(self) -> None:
        """Ask again for what was asked for and has not come."""
        for job in self._loop.ask(asked).result():
            self.ask(job)

    def ask(self, job: str) -> None:
        """Find ways to run a job, in the background."""
        with contextlib.suppress(RuntimeError):  # the service ends; the next one asks
            self._workers.submit(self._ask, job)

    def _ask(self, job: str) -> None:
        try:
            brief = brief_of(self._store, job)
            ask = Ask(job_id=job, job=brief.job, config=brief.config, ground=self._ground())
            self._planning.offer(ask, lambda offering, text: self._planned(job, offering, text))
        except Exception as error:
            LOG.exception("%s can't be planned", job)
            self._planned(job, None, f"it can't be planned: {error}")

    def _planned(self, job: str, offering: Offering | None, text: str) -> None:
        if offering is None:
            sent = self._loop.send(OptionsRefused, job=job, text=text)
            sent.add_done_callback(lambda done: self._again(done, job))
            return
        kept = offering

        def along(_state: State, record: Record) -> list[Statement]:
            return put_offering(job, record.event.seq, kept)

        sent = self._loop.send(OptionsOffered, along=along, job=job, options=offering.options)
        sent.add_done_callback(lambda done: self._again(done, job))

    def _again(self, done: "Future[Record]", job: str) -> None:
        """Ask again, after a while, where the store took no answer: the core still waits for one."""
        if isinstance(done.exception(), InfrastructureError):
            timer = threading.Timer(AGAIN_S, self.ask, (job,))
            timer.daemon = True
            timer.start()


def asked(state: State) -> list[str]:
    """List the jobs whose options were asked for and have not come."""
    return [job.id for job in state.jobs.values() if job.asked and job.state != "ended"]
