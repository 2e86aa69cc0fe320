"""The one thread that owns the core's state: events in by a queue, records to the store, commands out after commit.

Events that wait together share one commit. What was not committed did not happen: the state in memory is void then
and is rebuilt from the store. Must not know what commands mean, nor who sends events.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from argosy.contracts.command import RunPass
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.contracts.event import PassDue, TermBegan, TimeReached
from argosy.control import core, log
from argosy.control.log import Record as Record
from argosy.control.state import State as State
from argosy.server.store import Statement, Store

LOG = logging.getLogger("argosy.server")
PASS_DELAY_S = 0.02
"""How long requests for a pass are gathered."""
IDLE_S = 1.0
AGAIN_S = 1.0
"""How long to wait with timers and passes after the store refused a write."""
BATCH_MAX = 512
QUEUE_MAX = 100_000
COMPACT_AFTER = 2_000
SECOND_US = 1_000_000

Question = Callable[[State], Any]
Along = Callable[[State, Record], Iterable[Statement]]
"""What to write in the same commit as a record; it may read the state."""
Heard = Callable[[State, Record], None]


def wall_us() -> int:
    """Give the time in microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass(slots=True, kw_only=True)
class _Item:
    """One thing to do: an event to handle, writes to commit, or a question to answer."""

    kind: Any = None
    fields: dict[str, Any] = field(default_factory=dict)
    along: Along | None = None
    statements: tuple[Statement, ...] = ()
    question: Question | None = None
    future: "Future[Any]" = field(default_factory=Future)
    record: Record | None = None


class Loop:
    """Drives one core. annals: writes that go with every record. heard: is told of every record once it is committed.

    clock_us: the wall's; it may go back, the log's time does not.
    """

    def __init__(self, store: Store, *, annals: Along, heard: Heard, clock_us: Callable[[], int] = wall_us) -> None:
        self._store, self._annals, self._heard, self._clock_us = store, annals, heard, clock_us
        self._queue: queue.Queue[_Item | None] = queue.Queue(QUEUE_MAX)
        self._thread = threading.Thread(target=self._run, name="argosy-loop", daemon=True)
        self._state = self._rebuilt()
        self._since_snapshot = 0
        self._pass_at_s: float | None = None
        self._again_at_s = 0.0
        self._void = False
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
        """Handle what waits and end."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._store.close()

    def send(self, kind: Any, *, along: Along | None = None, **fields: Any) -> "Future[Record]":
        """Have an event handled; the record comes once it is on disk. along: writes of the same commit.

        The future raises BadInputError for an event that is not taken in, InfrastructureError if it can't be written.
        """
        return self._put(_Item(kind=kind, fields=fields, along=along))

    def ask(self, question: Callable[[State], Any]) -> "Future[Any]":
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
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            item.future.set_exception(InfrastructureError("the service has more to do than it can; try again later"))
        return item.future

    def _run(self) -> None:
        while True:
            items, last = self._gather()
            self._turn(items)
            if last:
                return

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
        items = []
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
                self._store.commit(())
                self._void = False
            lines, statements = self._step_all(items)
            self._store.commit(lines, statements)
        except Exception as error:
            self._undo(items, error)
            return
        for item in items:
            if not item.future.done():
                item.future.set_result(item.record)
            if item.record is not None:
                self._let_out(item.record)
        self._compact(len(lines))

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
            lines.append((record.event.seq, log.write_record(record)))
            statements += self._annals(self._state, record)
            statements += item.along(self._state, record) if item.along else ()
        return lines, statements

    def _undo(self, items: list[_Item], error: Exception) -> None:
        """Take back what was decided but not written, and say so to those who wait."""
        if not isinstance(error, ArgosyError):
            LOG.exception("an event could not be handled; the state is rebuilt from the store")
            error = InfrastructureError(f"the service failed over this: {type(error).__name__}: {error}")
        else:
            LOG.error("%s", error)
        self._void = True
        self._again_at_s = time.monotonic() + AGAIN_S
        if any(item.kind is PassDue for item in items):
            self._pass_at_s = self._again_at_s
        self._state = self._rebuilt()
        for item in items:
            if not item.future.done():
                item.future.set_exception(error)

    def _let_out(self, record: Record) -> None:
        if self._pass_at_s is None and any(isinstance(command, RunPass) for command in record.commands):
            self._pass_at_s = time.monotonic() + PASS_DELAY_S
        try:
            self._heard(self._state, record)
        except Exception:
            LOG.exception("a committed record could not be carried out; what it asks for is compared again later")

    def _compact(self, count: int) -> None:
        self._since_snapshot += count
        if self._since_snapshot < COMPACT_AFTER:
            return
        self._since_snapshot = 0
        try:
            self._store.keep(self._state.seq, log.snapshot(self._state))
        except InfrastructureError as error:
            LOG.error("%s", error)

    def _rebuilt(self) -> State:
        data, lines = self._store.recall()
        return log.rebuild(data if data is not None else log.snapshot(State()), lines)


def _answer(question: Question, state: State, future: "Future[Any]") -> None:
    """Answer a question, or hand its error to whoever asked."""
    try:
        future.set_result(question(state))
    except Exception as error:
        future.set_exception(error)
