"""Options asked of the planner when the core asks, and told to it when they come, kept in the same commit.

The planner has one job at a time; the others are names in a line. What is lost here is asked for again when the next
server begins. Must not know what becomes of options.
"""

import contextlib
import heapq
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from argosy.contracts.event import OptionsOffered, OptionsRefused
from argosy.control.state import State
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
    """Asks the planner for one loop. ground: gives the fleet as it is now; workers: read the store meanwhile.

    note: is told what people may want to know of a job: kind, job, text.
    """

    def __init__(
        self, store: Store, loop: Loop, planning: Planning, ground: Callable[[], Ground], workers: Executor
    ) -> None:
        self._store, self._loop, self._planning = store, loop, planning
        self._ground, self._workers = ground, workers
        self.note: Callable[[str, str, str], None] = lambda _kind, _job, _text: None
        self._lock = threading.RLock()
        self._line: dict[str, None] = {}
        self._planned_now = ""
        self._late: list[tuple[float, str]] = []
        self._timer: threading.Timer | None = None
        self._failures: dict[str, int] = {}
        self._troubles: dict[str, str] = {}

    @property
    def waiting(self) -> int:
        """How many jobs wait for the planner, or are planned now."""
        return len(self._line) + bool(self._planned_now)

    def trouble(self, job: str) -> str:
        """Say what has kept a job from being planned so far; empty where nothing did."""
        return self._troubles.get(job, "")

    def begin(self) -> None:
        """Ask again for what was asked for and has not come."""
        waiting = self._loop.ask(lambda state: [job for job in state.jobs if _is_wanted(state, job)])
        for job in waiting.result():
            self.ask(job)

    def ask(self, job: str) -> None:
        """Find ways to run a job, in the background; what needs the planner, after those that were asked for before."""
        with contextlib.suppress(RuntimeError):  # the service ends; the next one asks
            self._workers.submit(self._sort, job)

    def _sort(self, job: str) -> None:
        """Answer a command at once, and have a training job stand in the line."""
        try:
            kind = brief_of(self._store, job).job.kind
        except Exception as error:
            self._planned(job, error)
            return
        if kind == "run":
            self._ask(job)
            return
        with self._lock:
            self._line[job] = None
        self._next()

    def _next(self) -> None:
        """Have the first in the line planned, once the one before it is."""
        with self._lock:
            if self._planned_now or not self._line:
                return
            job = self._planned_now = next(iter(self._line))
            del self._line[job]
        wanted = self._loop.ask(lambda state: _is_wanted(state, job))
        wanted.add_done_callback(lambda asked: self._begin(job, asked))

    def _begin(self, job: str, wanted: "Future[bool]") -> None:
        if wanted.exception() is None and not wanted.result():
            self._forget(job)
            self._over(job)
            return
        with contextlib.suppress(RuntimeError):  # the service ends; the next one asks
            self._workers.submit(self._ask, job)

    def _ask(self, job: str) -> None:
        try:
            brief = brief_of(self._store, job)
            ask = Ask(job_id=job, job=brief.job, config=brief.config, ground=self._ground())
            self._planning.offer(ask, lambda found: self._planned(job, found), lambda: self._died(job))
        except Exception as error:
            self._planned(job, error)

    def _planned(self, job: str, found: Offering | BaseException) -> None:
        """Tell the core; what only went wrong says nothing of the job, which waits until it is planned."""
        if isinstance(found, NEVER):
            self._forget(job)
            sent = self._loop.send(OptionsRefused, job=job, text=str(found))
            sent.add_done_callback(lambda done: self._again(done, job))
        elif isinstance(found, Offering):
            self._forget(job)
            self._offered(job, found)
        else:
            failures = self._failures[job] = self._failures.get(job, 0) + 1
            wait_s = min(AGAIN_S * 2.0 ** min(failures - 1, 10), AGAIN_S_MAX)
            self._tell(job, f"it could not be planned, and is planned again in {wait_s:g} s: {words_of(found)}")
            self._later(job, wait_s)
        self._over(job)

    def _over(self, job: str) -> None:
        with self._lock:
            if self._planned_now == job:
                self._planned_now = ""
        self._next()

    def _died(self, job: str) -> None:
        self._tell(job, "the process that planned it died; it is planned again")

    def _tell(self, job: str, text: str) -> None:
        LOG.error("%s: %s", job, text)
        self._troubles[job] = text
        self.note("job.note", job, text)

    def _forget(self, job: str) -> None:
        self._failures.pop(job, None)
        self._troubles.pop(job, None)

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
        error = done.exception()
        if error is not None and not isinstance(error, NEVER):
            self._later(job, AGAIN_S)

    def _later(self, job: str, wait_s: float) -> None:
        """Ask again after a while; one timer waits for all."""
        with self._lock:
            heapq.heappush(self._late, (time.monotonic() + wait_s, job))
            self._wind()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._late:
            self._timer = threading.Timer(max(0.0, self._late[0][0] - time.monotonic()), self._ring)
            self._timer.daemon = True
            self._timer.start()

    def _ring(self) -> None:
        due = []
        with self._lock:
            while self._late and self._late[0][0] <= time.monotonic():
                due.append(heapq.heappop(self._late)[1])
            self._wind()
        for job in due:
            self.ask(job)


def _is_wanted(state: State, job: str) -> bool:
    """Say whether a job still waits for options."""
    found = state.jobs.get(job)
    return found is not None and found.asked and found.state != "ended"
