"""What is kept of attempts beside the log: when each began, ran and ended, on what, and how long it was to wait.

Reads records and gives writes; it must not know how they are carried out.
"""

import json
from collections.abc import Iterator

from argosy.contracts.event import PassDue
from argosy.control.change import AttemptBegan, AttemptGone, AttemptRegrouped, JobAdded, JobMoved, Record
from argosy.control.explain import explain
from argosy.control.state import State
from argosy.server.store import Statement

INSERT = (
    "INSERT INTO attempt (id, generation, job, queue, owner, nodes, chips, began_us, wait_us, foretold_us) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(?, (SELECT wait_us FROM forecast WHERE job = ?)))"
)
FORETELL = "INSERT OR REPLACE INTO forecast VALUES (?, ?)"
FORGET = "DELETE FROM forecast WHERE job = ?"
WONDER = "INSERT OR REPLACE INTO untold VALUES (?, ?)"
KNOW = "DELETE FROM untold WHERE about = ?"
HAND_ON = "UPDATE OR REPLACE untold SET about = ? WHERE about = ?"
END_OTHERS = "UPDATE attempt SET ended_us = ? WHERE id = ? AND generation < ? AND ended_us IS NULL"
END_ALL = "UPDATE attempt SET ended_us = ? WHERE id = ? AND ended_us IS NULL"
RUNNING = "UPDATE attempt SET running_us = ? WHERE id = ? AND generation = ? AND running_us IS NULL"


class Annals:
    """Gives the writes that go with each record of one loop.

    A wait is foretold when a pass looks at a job that is new, or waits again, and starts it; else as soon as nodes are
    held for it by the time limits of those who have them. Till then it is kept why nobody can tell.
    """

    def __init__(self) -> None:
        self._fresh: set[str] = set()
        self._untold: set[str] = set()

    def __call__(self, state: State, record: Record) -> Iterator[Statement]:
        """Give the writes of a record. state: as the record left it."""
        now_us = record.event.now_us
        for change in record.changes:
            match change:
                case JobAdded(job=job) | JobMoved(job=job, to="waiting"):
                    self._fresh.add(job)
                    self._untold.discard(job)
                case AttemptBegan(attempt=name, job=job):
                    waited_us = now_us - state.jobs[job].since_us
                    foretold_us = 0 if job in self._fresh else None
                    self._drop(job)
                    yield _begin(state, name, job, 1, change.nodes, waited_us, foretold_us)
                    yield (FORGET, (job,))
                    yield (HAND_ON, (name, job))
                case AttemptRegrouped(attempt=name, generation=generation):
                    yield (END_OTHERS, (now_us, name, generation))
                    yield _begin(state, name, name.rpartition(".")[0], generation, change.nodes, 0, None)
                case JobMoved(job=job, to="running") if attempt := state.attempts.get(state.jobs[job].attempt):
                    yield (RUNNING, (now_us, attempt.id, attempt.generation))
                case JobMoved(job=job, to="ended"):
                    self._drop(job)
                    yield (FORGET, (job,))
                    yield (KNOW, (job,))
                case AttemptGone(attempt=name):
                    yield (END_ALL, (now_us, name))
        if isinstance(record.event, PassDue):
            yield from self._foretell(state)

    def _drop(self, job: str) -> None:
        """Wait for no forecast of a job any more."""
        self._fresh.discard(job)
        self._untold.discard(job)

    def _foretell(self, state: State) -> Iterator[Statement]:
        """Keep what the core foretells of jobs that wait, and of those looked at for the first time why it can't."""
        seen = {job for job in self._fresh if job in state.jobs and state.jobs[job].rungs}
        self._fresh -= seen
        self._untold |= seen
        # Without a reservation nothing is foretold.
        for job in sorted(seen | (self._untold & state.reservations.keys())):
            why = explain(state, job)
            if why is not None and why.eta_p50_us is not None:
                self._untold.discard(job)
                yield (FORETELL, (job, max(0, why.eta_p50_us - why.since_us)))
                yield (KNOW, (job,))
            elif why is not None and job in seen:
                yield (WONDER, (job, why.start_unknown))


def _begin(
    state: State,
    attempt: str,
    job: str,
    generation: int,
    nodes: tuple[tuple[int, ...], ...],
    waited_us: int,
    foretold_us: int | None,
) -> Statement:
    numbers = [number for part in nodes for number in part]
    pools = state.nodes.pools
    chips = sum(pools[state.nodes.pool[number]].chips_per_node for number in numbers)
    claim = state.jobs[job].claim
    names = json.dumps(state.nodes.names(numbers))
    values = (attempt, generation, job, claim.queue, claim.owner, names, chips, state.now_us, waited_us, foretold_us)
    return (INSERT, (*values, job))
