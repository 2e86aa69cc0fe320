"""What is kept of attempts beside the log: when each began, ran and ended, and on what.

Reads records and gives writes; it must not know how they are carried out.
"""

import json
from collections.abc import Iterator

from argosy.control.change import AttemptBegan, AttemptGone, AttemptRegrouped, JobMoved, Record
from argosy.control.state import State
from argosy.server.store import Statement

INSERT = (
    "INSERT INTO attempt (id, generation, job, queue, owner, nodes, chips, began_us, wait_us) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
END_OTHERS = "UPDATE attempt SET ended_us = ? WHERE id = ? AND generation < ? AND ended_us IS NULL"
END_ALL = "UPDATE attempt SET ended_us = ? WHERE id = ? AND ended_us IS NULL"
RUNNING = "UPDATE attempt SET running_us = ? WHERE id = ? AND generation = ? AND running_us IS NULL"


def annals(state: State, record: Record) -> Iterator[Statement]:
    """Give the writes that go with a record. state: as the record left it."""
    now_us = record.event.now_us
    for change in record.changes:
        match change:
            case AttemptBegan(attempt=name, job=job):
                waited_us = now_us - state.jobs[job].since_us
                yield _begin(state, name, job, 1, change.nodes, waited_us)
            case AttemptRegrouped(attempt=name, generation=generation):
                yield (END_OTHERS, (now_us, name, generation))
                job = name.rpartition(".")[0]
                yield _begin(state, name, job, generation, change.nodes, 0)
            case JobMoved(job=job, to="running") if attempt := state.attempts.get(state.jobs[job].attempt):
                yield (RUNNING, (now_us, attempt.id, attempt.generation))
            case AttemptGone(attempt=name):
                yield (END_ALL, (now_us, name))


def _begin(
    state: State, attempt: str, job: str, generation: int, nodes: tuple[tuple[int, ...], ...], waited_us: int
) -> Statement:
    numbers = [number for part in nodes for number in part]
    pools = state.nodes.pools
    chips = sum(pools[state.nodes.pool[number]].chips_per_node for number in numbers)
    claim = state.jobs[job].claim
    names = json.dumps(state.nodes.names(numbers))
    return (INSERT, (attempt, generation, job, claim.queue, claim.owner, names, chips, state.now_us, waited_us))
