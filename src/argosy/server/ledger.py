"""Keeps what ranks report: rolls it up in memory and has it written now and then, once for many reports.

Lives on the event loop's thread. Must not know how reports travel.
"""

import asyncio
from collections.abc import Callable

from argosy.contracts.messages import Note
from argosy.contracts.talk import RankSaid
from argosy.server.books import measured_of, put_measured
from argosy.server.loop import Loop, wall_us
from argosy.server.measures import Roll, write_roll
from argosy.server.store import Store

ROLLS_MAX = 10_000
NOTES_MAX = 100
"""How many notes of one generation people are told."""
GATHER_S = 0.2
"""How long reports are gathered before they are written."""


class Rolls:
    """The roll-ups of all generations that were heard of lately. note: is told what ranks note: kind, job, text."""

    def __init__(self, store: Store, loop: Loop, note: Callable[[str, str, str], None]) -> None:
        self._store, self._loop, self._note = store, loop, note
        self._rolls: dict[tuple[str, int], Roll] = {}
        self._dirty: set[tuple[str, int]] = set()
        self._flushing: asyncio.Task[None] | None = None
        self._counted = self._written = 0

    def take(self, node: str, said: RankSaid) -> None:
        """Count a report."""
        key = (said.attempt, said.generation)
        roll = self._rolls.get(key)
        if roll is None:
            roll = self._rolls[key] = measured_of(self._store, *key)
            if len(self._rolls) > ROLLS_MAX:
                oldest = next(iter(self._rolls))
                if oldest not in self._dirty:
                    del self._rolls[oldest]
        if roll.take(node, said, wall_us()):
            self._dirty.add(key)
            self._counted += 1
            if isinstance(said.message, Note) and roll.notes <= NOTES_MAX:
                self._note("job.note", said.attempt.rpartition(".")[0], _words(node, said.message, roll.notes))

    def roll(self, attempt: str, generation: int) -> Roll | None:
        """Give the roll-up of a generation that was heard of lately."""
        return self._rolls.get((attempt, generation))

    async def flush(self) -> None:
        """Return once all that was counted is on disk; several who ask share one write."""
        counted = self._counted
        while self._written < counted:
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.create_task(self._write())
            # One who asks and goes away must not take the write from the others.
            await asyncio.shield(self._flushing)

    async def _write(self) -> None:
        await asyncio.sleep(GATHER_S)
        dirty, self._dirty = self._dirty, set()
        counted = self._counted
        rows = [put_measured(*key, write_roll(self._rolls[key])) for key in sorted(dirty)]
        try:
            await asyncio.wrap_future(self._loop.write(*rows))
        except BaseException:
            self._dirty |= dirty
            raise
        self._written = counted


def _words(node: str, note: Note, number: int) -> str:
    last = "; no more notes of this generation are told" if number == NOTES_MAX else ""
    return f"rank {note.rank} on {node}: {note.text}{last}"
