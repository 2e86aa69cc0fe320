"""The state as bytes and back: what cannot be worked out from the rest is kept, the rest is counted anew.

Works on bytes that the caller keeps; no file is known here.
"""

from typing import Any

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.contracts.policy import Policy
from argosy.contracts.request import Pool
from argosy.control.apply import rebuild
from argosy.control.domains import own
from argosy.control.state import AttemptState, JobState, QueueUse, Reservation, State

VERSION = 1
COLUMNS = (
    "name",
    "pool",
    "rack",
    "spine",
    "observed",
    "intent",
    "trust",
    "holder",
    "leaving",
    "left_generation",
    "leave_by_us",
    "lease_us",
    "until_us",
    "spare",
    "retired",
    "faults",
    "lock",
    "lock_until",
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All of a state that cannot be worked out from the rest. nodes: columns of the node table by name."""

    version: int
    seed: int
    seq: int
    now_us: int
    term: int
    policy: Policy
    pools: tuple[Pool, ...]
    nodes: dict[str, list[Any]]
    jobs: list[JobState]
    attempts: list[AttemptState]
    reservations: list[Reservation]
    timers: list[tuple[int, str, str]]
    cordons: list[int]
    use: dict[str, QueueUse]
    early: dict[str, list[int]]
    ended: list[str]
    rounds: dict[str, int] = {}


def snapshot(state: State) -> bytes:
    """Write the state; equal states give equal bytes."""
    return msgspec.json.encode(
        Snapshot(
            version=VERSION,
            seed=state.seed,
            seq=state.seq,
            now_us=state.now_us,
            term=state.term,
            policy=state.policy,
            pools=tuple(state.nodes.pools),
            nodes={column: getattr(state.nodes, column) for column in COLUMNS},
            jobs=sorted(state.jobs.values(), key=lambda job: job.number),
            attempts=sorted(state.attempts.values(), key=lambda attempt: attempt.id),
            reservations=sorted(state.reservations.values(), key=lambda item: item.job),
            timers=state.timers,
            cordons=state.cordons,
            use=state.use,
            early=state.early,
            ended=state.ended,
            rounds=state.rounds,
        ),
        order="deterministic",
    )


def restore(data: bytes) -> State:
    """Rebuild a state from its bytes."""
    try:
        kept = msgspec.json.decode(data, type=Snapshot)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"not a snapshot of the core of version {VERSION}: {error}") from error
    if kept.version != VERSION:
        raise BadInputError(f"snapshot of version {kept.version}; this Argosy reads version {VERSION}")
    state = State(kept.seed)
    state.seq, state.now_us, state.term, state.policy = kept.seq, kept.now_us, kept.term, kept.policy
    for pool in kept.pools:
        state.nodes.add_pool(pool)
    _fill_nodes(state, kept.nodes)
    state.jobs = {job.id: job for job in kept.jobs}
    state.attempts = {attempt.id: attempt for attempt in kept.attempts}
    state.reservations = {item.job: item for item in kept.reservations}
    state.timers, state.cordons, state.use = kept.timers, kept.cordons, kept.use
    state.early, state.ended, state.rounds = kept.early, kept.ended, kept.rounds
    rebuild(state)
    return state


def _fill_nodes(state: State, columns: dict[str, list[Any]]) -> None:
    """Fill the node table and count its trees anew."""
    nodes = state.nodes
    for column in COLUMNS:
        setattr(nodes, column, columns[column])
    for number, name in enumerate(nodes.name):
        nodes.number[name] = number
        leaf = nodes.trees[nodes.pool[number]].leaf(nodes.spine[number], nodes.rack[number])
        nodes.leaf.append(leaf)
        nodes.members[nodes.pool[number]].append(number)
        own(leaf, 0 if nodes.retired[number] else 1)
        nodes.ready.append(False)
        nodes.placeable.append(False)
    for number in range(len(nodes)):
        nodes.refresh(number)
