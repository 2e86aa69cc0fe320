"""The one thread that owns the core's state: events in by a queue, records to the store, commands out after commit.

Events that wait together share one commit. What was not committed did not happen: the state in memory is void then
and is rebuilt from the store. Must not know what commands mean, nor who sends events.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from argosy.contracts.command import RunPass
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.contracts.event import PassDue, TermBegan, TimeReached
from argosy.control import core
from argosy.control.change import Record
from argosy.control.state import State
from argosy.server.memory import Memory, line_of
from argosy.server.store import Statement, Store

LOG = logging.getLogger("argosy.server")
PASS_DELAY_S = 0.02
"""How long requests for a pass are gathered."""
IDLE_S = 1.0
AGAIN_S = 1.0
"""How long to wait with timers and passes after the store refused a write."""
REBUILD_TRIES = 30
"""How often the state is asked back from a store that can't be read, AGAIN_S apart, before the process ends."""
FAILED_EXIT = 70
BATCH_MAX = 512
QUEUE_MAX = 100_000
SECOND_US = 1_000_000
CATCH_UP = 0.01
"""By how much of the time passed the log's clock is faster or slower until it tells what the wall's does.

A lease is counted from when a node has been silent for DOWN_AFTER_S, the agent's own from when it last got an answer:
so at this rate no lease of up to 1,500 s is over here before it is over there.
"""

T = TypeVar("T")


def end_process() -> None:
    """End this process at once, as a kill would: what was committed is kept, ranks and agents go on."""
    os._exit(FAILED_EXIT)


Question = Callable[[State], T]
Along = Callable[[State, Record], Iterable[Statement]]
"""What to write in the same commit as a record; it may read the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A record that is on disk, and the state as it left it."""

    record: Record
    state: State


Heard = Callable[[Committed], None]


def wall_us() -> int:
    """Give the time in microseconds since 1970."""
    return time.time_ns() // 1000


def passed_us() -> int:
    """Give the time since some start in microseconds; it never steps."""
    return time.monotonic_ns() // 1000


class SteadyClock:
    """The log's time: it starts from the wall's, or from the log where that is further, and runs evenly from there.

    Leases and time limits are told in the log's time, but lived through by machines. Were it the wall's, a step forward
    (a clock that is set, a virtual machine that is woken) would end every lease at once, and chips whose ranks still
    run would be given away; after a step back no timer would go off until the wall is there again. So it goes by the
    monotonic clock, and catches up slowly what the wall is ahead or behind. from_us: the log's last time.
    """

    def __init__(
        self, from_us: int, wall_us: Callable[[], int] = wall_us, passed_us: Callable[[], int] = passed_us
    ) -> None:
        self._wall_us, self._passed_us = wall_us, passed_us
        self._now_us, self._at_us = max(from_us, wall_us()), passed_us()

    def __call__(self) -> int:
        """Give the time in microseconds since 1970, as far as that is known."""
        at_us = self._passed_us()
        passed_us, self._at_us = at_us - self._at_us, at_us
        most_us = int(passed_us * CATCH_UP)
        behind_us = self._wall_us() - self._now_us - passed_us
        self._now_us += passed_us + max(-most_us, min(most_us, behind_us))
        return self._now_us


@dataclass(slots=True, kw_only=True)
class _Item:
    """One thing to do: an event to handle, writes to commit, or a question to answer."""

    kind: Any = None
    fields: dict[str, Any] = field(default_factory=dict)
    along: Along | None = None
    statements: tuple[Statement, ...] = ()
    question: Question[Any] | None = None
    future: "Future[Any]" = field(default_factory=Future)
    record: Record | None = None


class Loop:
    """Drives one core. annals: writes that go with every record. heard: is told of every record once it is committed.

    clock_us: a steady clock unless told; it may go back, the log's time does not. end: of the process, when the loop
    can't go on: without it nothing else here is of use. trouble: why the store takes nothing at present; empty where it
    does.
    """

    def __init__(
        self,
        store: Store,
        *,
        annals: Along,
        heard: Heard,
        clock_us: Callable[[], int] | None = None,
        end: Callable[[], None] = end_process,
    ) -> None:
        self._store, self._annals, self._heard = store, annals, heard
        self._end = end
        self._queue: queue.Queue[_Item | None] = queue.Queue(QUEUE_MAX)
        self._thread = threading.Thread(target=self._run, name="argosy-loop", daemon=True)
        self._memory = Memory(store)
        self._state = self._memory.rebuilt()
        self._clock_us = clock_us or SteadyClock(self._state.now_us)
        self._pass_at_s: float | None = None
        self._again_at_s = 0.0
        self._void = self._closed = False
        self.trouble = ""
        self._closing = threading.Lock()
        self.term = 0

    def start(self) -> None:
        """Take the next term and begin; raises InfrastructureError where that can't be written."""
        self.term = self._state.term + 1
        first = _Item(kind=TermBegan)
        self._turn([first])
        first.future.result()
        self._pass_at_s = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """Handle what waits and end; what comes later is refused."""
        with self._closing:
            self._closed = True
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._store.close()

    def send(self, kind: Any, *, along: Along | None = None, **fields: Any) -> "Future[Record]":
        """Have an event handled; the record comes once it is on disk. along: writes of the same commit.

        The future raises BadInputError for an event that is not taken in, InfrastructureError if it can't be written.
        """
        return self._put(_Item(kind=kind, fields=fields, along=along))

    def ask(self, question: Question[T]) -> "Future[T]":
        """Ask the committed state; the answer must not keep parts of it."""
        return self._put(_Item(question=question))

    def write(self, *statements: Statement) -> "Future[None]":
        """Have something else written."""
        return self._put(_Item(statements=statements))

    @property
    def waiting(self) -> int:
        """How many events and questions wait."""
        return self._queue.qsize()

    def _put(self, item: _Item) -> "Future[Any]":
        # From now on nobody can cancel it, so that an answer can always be set, whether somebody waits or not.
        item.future.set_running_or_notify_cancel()
        try:
            # Nothing may stand behind the end, where nobody would answer it.
            with self._closing:
                if self._closed:
                    item.future.set_exception(InfrastructureError("the service is ending; try again when it is back"))
                else:
                    self._queue.put_nowait(item)
        except queue.Full:
            item.future.set_exception(InfrastructureError("the service has more to do than it can; try again later"))
        return item.future

    def _run(self) -> None:
        try:
            last = False
            while not last:
                items, last = self._gather()
                self._turn(items)
        except BaseException:
            LOG.critical("the service can't go on and ends; what was committed is kept, and jobs run on", exc_info=True)
            self._end()

    def _gather(self) -> tuple[list[_Item], bool]:
        """Wait for something to do: what is in the queue, or the time for a pass or a timer."""
        items: list[_Item] = []
        try:
            item = self._queue.get(timeout=self._patience_s())
            while item is not None:
                items.append(item)
                if len(items) >= BATCH_MAX:
                    break
                item = self._queue.get_nowait()
            if item is None:
                return items, True
        except queue.Empty:
            pass
        return items + self._due(), False

    def _patience_s(self) -> float:
        now_s = time.monotonic()
        waits = [IDLE_S]
        if self._pass_at_s is not None:
            waits.append(max(self._pass_at_s, self._again_at_s) - now_s)
        if self._state.timers:
            timer_s = (self._state.timers[0][0] - self._clock_us()) / SECOND_US
            waits.append(max(timer_s, self._again_at_s - now_s))
        return max(0.0, min(waits))

    def _due(self) -> list[_Item]:
        """Give the events that time itself brings."""
        now_s = time.monotonic()
        if now_s < self._again_at_s:
            return []
        # Without anything to do it is found out all the same when the store takes writes again.
        items = [_Item()] if self._void else []
        if self._state.timers and self._state.timers[0][0] <= self._clock_us():
            items.append(_Item(kind=TimeReached))
        if self._pass_at_s is not None and self._pass_at_s <= now_s:
            self._pass_at_s = None
            items.append(_Item(kind=PassDue))
        return items

    def _turn(self, items: list[_Item]) -> None:
        """Handle events and writes, commit them together, let the commands out, then answer questions."""
        doing = [item for item in items if item.question is None]
        if doing:
            self._handle(doing)
        for item in items:
            if item.question is not None:
                _answer(item.question, self._state, item.future)

    def _handle(self, items: list[_Item]) -> None:
        try:
            if self._void:
                # Nothing more is decided before the store takes writes again.
                self._store.probe()
                self._void, self.trouble = False, ""
            lines, statements = self._step_all(items)
            self._store.commit(lines, statements)
        except Exception as error:
            waiting = [item for item in items if not item.future.done()]
            if isinstance(error, ArgosyError) or len(waiting) < 2:
                self._undo(waiting, error)
                return
            LOG.exception("events could not be handled together; each is tried alone")
            self._rebuild()
            for item in waiting:
                item.record = None
                self._handle([item])
            return
        for item in items:
            if not item.future.done():
                item.future.set_result(item.record)
            if item.record is not None:
                self._let_out(item.record)
        self._memory.grown(self._state, len(lines))

    def _step_all(self, items: list[_Item]) -> tuple[list[tuple[int, bytes]], list[Statement]]:
        lines: list[tuple[int, bytes]] = []
        statements: list[Statement] = []
        for item in items:
            statements += item.statements
            if item.kind is None:
                continue
            now_us = max(self._clock_us(), self._state.now_us)
            event = item.kind(seq=self._state.seq + 1, now_us=now_us, term=self.term, **item.fields)
            try:
                record = core.step(self._state, event)
            except BadInputError as error:
                item.future.set_exception(error)
                continue
            item.record = record
            lines.append(line_of(record))
            statements += self._annals(self._state, record)
            statements += item.along(self._state, record) if item.along else ()
        return lines, statements

    def _undo(self, items: list[_Item], error: Exception) -> None:
        """Take back what was decided but not written, and say so to those who wait."""
        if not isinstance(error, ArgosyError):
            LOG.exception("an event could not be handled; the state is rebuilt from the store")
            error = InfrastructureError(f"the service failed over this: {type(error).__name__}: {error}")
        elif str(error) != self.trouble:
            LOG.error("%s", error)
            self.trouble = str(error)
        self._void = True
        self._again_at_s = time.monotonic() + AGAIN_S
        if any(item.kind is PassDue for item in items):
            self._pass_at_s = self._again_at_s
        for item in items:
            item.future.set_exception(error)
        self._rebuild()

    def _rebuild(self) -> None:
        """Take the state back from the store. Raises InfrastructureError when that can't be had for long."""
        for _ in range(REBUILD_TRIES - 1):
            try:
                self._state = self._memory.rebuilt()
                return
            except InfrastructureError as error:
                LOG.error("%s", error)
                time.sleep(AGAIN_S)
        self._state = self._memory.rebuilt()

    def _let_out(self, record: Record) -> None:
        if self._pass_at_s is None and any(isinstance(command, RunPass) for command in record.commands):
            self._pass_at_s = time.monotonic() + PASS_DELAY_S
        try:
            self._heard(Committed(record=record, state=self._state))
        except Exception:
            LOG.exception("a committed record could not be carried out; what it asks for is compared again later")


def _answer(question: Question[Any], state: State, future: "Future[Any]") -> None:
    """Answer a question, or hand its error to whoever asked."""
    try:
        future.set_result(question(state))
    except Exception as error:
        future.set_exception(error)
