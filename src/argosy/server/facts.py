"""What is known of jobs and nodes from state, books and desk together: attempts, progress, stories, reasons.

Must not know HTTP.
"""

import asyncio
from collections.abc import Sequence

from argosy.control.log import read_record
from argosy.control.story import job_story
from argosy.server.books import attempts_of, job_lines, reasons_of, source_of, steps_of
from argosy.server.front import Front
from argosy.server.loop import Loop, wall_us
from argosy.server.models import ChapterView, Explanation, JobDetail, JobView, NodeView, Progress
from argosy.server.store import Store
from argosy.server.telling import deeds

STORY_LINES_MAX = 5_000
CHAPTERS_MAX = 200
JOBS_KEPT = 10_000


class Facts:
    """Looks things up."""

    def __init__(self, store: Store, loop: Loop, front: Front) -> None:
        self._store, self._loop, self._front = store, loop, front
        self._steps: dict[str, int | None] = {}

    def with_progress(self, job: JobView) -> JobView:
        """Add how far a training job is, as its ranks last said."""
        roll = self._front.rolls.roll(job.attempt, job.generation) if job.attempt else None
        if roll is None or roll.step is None:
            return job
        steps = self._steps_of(job.id)
        rate = roll.tokens_per_second
        progress = Progress(step=roll.step, steps=steps, loss=roll.loss, tokens_per_second=rate, at_us=roll.at_us)
        return job.model_copy(update={"progress": progress})

    async def nodes(self, nodes: Sequence[NodeView]) -> list[NodeView]:
        """Add when nodes were heard, and why people keep them out."""
        desk = self._front.desk
        reasons = await asyncio.to_thread(reasons_of, self._store)
        return [
            node.model_copy(
                update={
                    "heard_us": desk.heard_us(node.name),
                    "reason": reasons.get(node.name, "") if node.intent != "open" else "",
                }
            )
            for node in nodes
        ]

    def _steps_of(self, job: str) -> int | None:
        """Say how many steps a training job has."""
        if job not in self._steps:
            if len(self._steps) > JOBS_KEPT:
                self._steps.clear()
            self._steps[job] = steps_of(self._store, job)
        return self._steps[job]

    async def detail(self, job: JobView) -> JobDetail:
        """Give a job with its document and attempts."""
        source, attempts = await asyncio.to_thread(
            lambda: (source_of(self._store, job.id), attempts_of(self._store, job.id, wall_us()))
        )
        body = self.with_progress(job).model_dump()
        return JobDetail.model_validate(body | {"document": source, "attempts": [one.model_dump() for one in attempts]})

    async def explained(self, found: Explanation) -> Explanation:
        """Add the story to what is known of why."""
        names = await asyncio.wrap_future(self._loop.ask(lambda state: tuple(state.nodes.name)))
        story = await asyncio.to_thread(self._story, found.job, names)
        return found.model_copy(update={"story": story})

    def _story(self, job: str, names: tuple[str, ...]) -> list[ChapterView]:
        records = (read_record(line) for line in job_lines(self._store, job, STORY_LINES_MAX))
        chapters = [
            ChapterView(seq=each.seq, at_us=each.now_us, event=each.event, did=deeds(each.did, names))
            for each in job_story(records, job)
        ]
        return [each for each in chapters if each.did][-CHAPTERS_MAX:]
