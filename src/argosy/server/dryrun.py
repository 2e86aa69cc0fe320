"""What would become of a job if it were handed in now: its options from the planner, and one pass on a copy.

Asks the planner and the loop; nothing is kept. Must not know HTTP.
"""

import asyncio
import time
from collections.abc import Callable

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.event import JobSubmitted
from argosy.server.heart import Heart
from argosy.server.intake import Handed
from argosy.server.models import DryRun, Submission
from argosy.server.planning import Ask, options_of
from argosy.server.trying import Copies, try_out
from argosy.server.views import offer_view

OFFERS_SHOWN = 20
AT_ONCE = 2
"""So many dry runs are worked on at a time: each has a copy of the whole state."""
WAITING_MAX = 64


class Tryout:
    """Tries jobs out. read: reads and checks a submission."""

    def __init__(self, heart: Heart, read: Callable[[Submission, str], tuple[Handed, str]]) -> None:
        self._heart, self._read = heart, read
        self._copies = Copies()
        self._waiting = 0
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def run(self, submission: Submission, owner: str) -> DryRun:
        """Say what would become of a job. Raises BadInputError, InfrastructureError."""
        if self._waiting >= WAITING_MAX:
            raise InfrastructureError(f"{self._waiting} dry runs are under way, the most that may be; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._run(submission, owner)
        finally:
            self._waiting -= 1

    async def _run(self, submission: Submission, owner: str) -> DryRun:
        handed, config = await asyncio.to_thread(self._read, submission, owner)
        ask = Ask(job_id="", job=handed.job, config=config, ground=self._heart.now())
        options, text = await options_of(self._heart.planning, ask)
        data = await asyncio.wrap_future(self._heart.loop.ask(self._copies.of))
        submitted = JobSubmitted(claim=handed.claim, options=options)
        found = await asyncio.to_thread(try_out, data, submitted, time.time_ns() // 1000)
        if text and found.state != "refused":  # what the core refuses it would refuse before anything is planned
            return DryRun(name=handed.claim.name, queue=handed.claim.queue, offers=[], state="refused", text=text)
        chips = {each.name: each.chips_per_node for each in ask.ground.classes}
        offers = [offer_view(option, size, chips) for option in options for size in option.ladder]
        return found.model_copy(update={"offers": offers[:OFFERS_SHOWN]})
