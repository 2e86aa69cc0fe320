"""Finding a job's options without holding the loop up: the planner works in a process of its own.

What plans is given (`Offerer`), since reading models is not this room's. `kind: run` needs no planner: its options are
whole nodes of each allowed class. Must not know state or store.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, NeverFitsError
from argosy.contracts.job import AnyJob, RunJob
from argosy.contracts.option import Option, Part, Size
from argosy.plan.offering import Offering
from argosy.server.ground import Ground

LOG = logging.getLogger("argosy.server")
PLAN_S_MAX = 120.0
"""How long a dry run waits for the planner."""
PLAN_S_LIMIT = 600.0
"""How long one plan may take before its process is ended, as if it had died."""
TRIES = 3
"""How often a plan is begun whose process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What options are wanted for. config: text of the model's config.json, empty where the job names one."""

    job_id: str
    job: AnyJob
    config: str
    ground: Ground


Offerer = Callable[[Ask], Offering]
"""Plans a training job; it is called in another process, so it has to be a function at the top of its module."""
ConfigOf = Callable[[str, str], str]
"""Gives the text of a model's config.json, checked: of one that was handed in, else of a named one."""
Told = Callable[[Offering | BaseException], None]
"""Is called once: with an offering, with why nothing in this fleet can run the job (one of NEVER), or with what went
wrong, which says nothing of the job."""
NEVER = (NeverFitsError, BadInputError)
Died = Callable[[], None]
"""Is called each time that the process died over a plan, which is begun again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """What the service is given to plan with. warm: loads the planner, in its process."""

    offerer: Offerer
    config_of: ConfigOf
    warm: Callable[[], None] | None = None


class Planning:
    """The planner's process, and what it plans with."""

    def __init__(self, skills: Skills) -> None:
        self.config_of = skills.config_of
        self._offerer, self._ready = skills.offerer, skills.warm
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def warm(self) -> None:
        """Start the process, so that the first job does not wait for it."""
        if self._ready is not None:
            self._submit(self._ready)

    def offer(self, ask: Ask, told: Told, died: Died = lambda: None) -> None:
        """Find options; `told` is called from another thread, or at once for what needs no planning."""
        if isinstance(ask.job, RunJob):
            try:
                offering = run_offering(ask.job_id, ask.job, ask.ground)
            except ArgosyError as error:
                told(error)
                return
            told(offering)
        else:
            self._try(ask, told, died, TRIES)

    def close(self) -> None:
        """End the process; what it plans is lost and asked for again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _try(self, ask: Ask, told: Told, died: Died, tries: int) -> None:
        pool, planned = self._submit(_bounded, self._offerer, ask)

        def done(future: "Future[Offering]") -> None:
            if future.cancelled():
                return
            error = future.exception()
            if isinstance(error, BrokenProcessPool) and tries > 1:
                self._drop(pool)
                died()
                self._try(ask, told, died, tries - 1)
            else:
                told(future.result() if error is None else error)

        planned.add_done_callback(done)

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> "tuple[ProcessPoolExecutor, Future[Any]]":
        with self._lock:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent)
            try:
                return self._pool, self._pool.submit(work, *arguments)
            except BrokenProcessPool as error:
                failed: Future[Any] = Future()
                failed.set_exception(error)
                return self._pool, failed

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        """Use a process no more that died; whoever found that out before has another one already."""
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False, cancel_futures=True)


async def options_of(planning: Planning, ask: Ask) -> tuple[tuple[Option, ...], str]:
    """Wait for options; gives them, or why there are none. Raises InfrastructureError when it takes too long."""
    events = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[tuple[Option, ...], str]] = events.create_future()

    def settle(found: Offering | BaseException) -> None:
        if answer.done():
            return
        if isinstance(found, Offering):
            answer.set_result((found.options, ""))
        elif isinstance(found, NEVER):
            answer.set_result(((), str(found)))
        else:
            answer.set_exception(InfrastructureError(words_of(found)))

    def told(found: Offering | BaseException) -> None:
        events.call_soon_threadsafe(settle, found)

    planning.offer(ask, told)
    try:
        return await asyncio.wait_for(answer, PLAN_S_MAX)
    except TimeoutError as error:
        raise InfrastructureError(f"the planner gave no answer within {PLAN_S_MAX:g} s; try again") from error


def run_offering(job_id: str, job: RunJob, ground: Ground) -> Offering:
    """Offer whole nodes of each allowed class. Raises NeverFitsError when no class has enough."""
    nodes, allow = job.run.nodes, job.chips.allow
    classes = [each for each in ground.classes if not allow or each.chip.name in allow]
    options = tuple(
        Option(
            name=each.name,
            job=job_id,
            ladder=(
                Size(
                    parts=(Part(chip_class=each.name, nodes=nodes, topology="node" if nodes == 1 else "site"),),
                    tokens_per_second=0.0,
                    efficiency=1.0,
                    emulated=each.emulated,
                ),
            ),
        )
        for each in classes
        if each.nodes >= nodes
    )
    if not options:
        wanted = f"{nodes} node{'' if nodes == 1 else 's'} of one class" + (
            f" with {' or '.join(allow)}" if allow else ""
        )
        there = ", ".join(f"{each.nodes} of {each.name}" for each in classes) or "none of these chips"
        raise NeverFitsError(f"needs {wanted}; the fleet has {there}")
    return Offering(options=options)


def words_of(error: BaseException) -> str:
    """Say what kept the planner from an answer."""
    if isinstance(error, ArgosyError):
        return str(error)
    LOG.error("the planner failed", exc_info=error)
    return f"the planner failed: {type(error).__name__}: {error}; this is a bug in Argosy"


def _bounded(offerer: Offerer, ask: Ask) -> Offering:
    """Plan, in the planner's process, which the kernel ends when it takes too long: others wait for it."""
    signal.setitimer(signal.ITIMER_REAL, PLAN_S_LIMIT)
    try:
        return offerer(ask)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _end_with_parent() -> None:
    """End this process when the server's ends, however it does: its pipes alone would not tell."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.join,), daemon=True).start()


def _watch(wait: Callable[[], None]) -> None:
    wait()
    os._exit(0)
