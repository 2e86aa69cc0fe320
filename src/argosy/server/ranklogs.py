"""Where the logs of a job's ranks lie, and how a part of one is read.

Asks books, loop and desk; must not know HTTP, nor how parts become lines.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable

from argosy.contracts.errors import BadInputError
from argosy.contracts.talk import LogPart
from argosy.control.state import State
from argosy.server.books import attempts_of, ranks_of
from argosy.server.front import Front
from argosy.server.logs import POLL_S, Place
from argosy.server.loop import Loop, wall_us
from argosy.server.store import Store

FAILED_RANK = re.compile(r"(\S+):\d+ \S+ rank (\d+) code")


class RankLogs:
    """Finds and reads logs."""

    def __init__(self, store: Store, loop: Loop, front: Front) -> None:
        self._store, self._loop, self._front = store, loop, front

    async def places(self, job: str, attempt: str, rank: int | None) -> list[Place]:
        """Say where the logs of an attempt lie, of its newest generation. attempt: empty for the newest.

        Raises BadInputError where there is no such attempt or rank; gives nothing for a job that never ran.
        """
        attempts = await asyncio.to_thread(attempts_of, self._store, job, wall_us())
        named = [one for one in attempts if attempt in ("", one.id, f"{one.id}:{one.generation}")]
        if not named:
            if attempt:
                known = ", ".join(dict.fromkeys(one.id for one in attempts)) or "none yet"
                raise BadInputError(f"attempt: {job} has no {attempt}; its attempts are {known}")
            return []
        chosen = named[-1]
        ranks = await asyncio.to_thread(ranks_of, self._store, chosen.id, chosen.generation)
        if rank is not None and ranks and rank not in ranks:
            raise BadInputError(f"rank: {chosen.id} has ranks 0 to {max(ranks)}, got {rank}")
        failed = await asyncio.wrap_future(self._loop.ask(lambda state: failed_rank(state, job, chosen.id)))
        return [
            Place(attempt=chosen.id, generation=chosen.generation, rank=number, node=node, first=number == failed)
            for number, node in sorted(ranks.items())
            if rank in (None, number)
        ]

    def read_part(self, place: Place, offset: int, limit: int) -> Awaitable[LogPart]:
        """Read a part of a rank's log."""
        desk = self._front.desk
        return desk.read_log(place.node, place.attempt, place.generation, place.rank, offset, limit)

    async def until_placed(self, job: str, attempt: str, rank: int | None) -> AsyncIterator[list[Place]]:
        """Say again and again where the logs of a job lie that has not begun, up to when it has, or has ended."""
        while True:
            found = await self.places(job, attempt, rank)
            yield found
            if found or await self.is_over(job, None):
                return
            await asyncio.sleep(POLL_S)

    async def is_over(self, job: str, attempt: str | None) -> bool:
        """Say whether an attempt runs no more; None: whether none will any more."""

        def question(state: State) -> bool:
            found = state.jobs.get(job)
            if found is None or attempt is None:
                return found is None or found.state == "ended"
            return found.attempt != attempt

        over: bool = await asyncio.wrap_future(self._loop.ask(question))
        return over


def failed_rank(state: State, job: str, attempt: str) -> int | None:
    """Find the rank that an attempt's end was blamed on, by the evidence; None where no rank was."""
    evidence = state.jobs[job].evidence if job in state.jobs else ()
    for text in reversed(evidence):
        found = FAILED_RANK.match(text)
        if found and found[1] == attempt:
            return int(found[2])
    return None
