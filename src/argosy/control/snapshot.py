"""The state as bytes and back: what cannot be worked out from the rest is kept, the rest is counted anew.

Works on bytes that the caller keeps; no file is known here.
"""

import zlib
from typing import Any

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.contracts.policy import Policy
from argosy.contracts.request import Pool
from argosy.control.apply import rebuild
from argosy.control.domains import own
from argosy.control.state import AttemptState, JobState, QueueUse, Reservation, State

VERSION = 2
COLUMNS = (
    "name",
    "pool",
    "rack",
    "spine",
    "observed",
    "intent",
    "empty_by_us",
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
    rounds: dict[str, int]
    leased_us: int = 0


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What every version of a snapshot says of itself."""

    version: int


def seal(data: bytes) -> bytes:
    """Make one line of some JSON, with its checksum before it."""
    return b"%08x %b\n" % (zlib.crc32(data), data)


def unseal(line: bytes) -> bytes:
    """Give the JSON of a line; raises ValueError if it is not what was written."""
    checksum, _, data = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(data):
        raise ValueError("the checksum does not match, the line is cut short or was changed")
    return data


def snapshot(state: State) -> bytes:
    """Write the state as one line; equal states give equal bytes."""
    return seal(_encoded(state))


def _encoded(state: State) -> bytes:
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
            leased_us=state.leased_us,
        ),
        order="deterministic",
    )


def restore(data: bytes) -> State:
    """Rebuild a state from its bytes. Raises BadInputError for what no core wrote."""
    kept = _decoded(data)
    try:
        return _restored(kept)
    except (LookupError, TypeError, ValueError) as error:
        raise BadInputError(f"not a snapshot of the core: its parts don't belong together: {error!r}") from error


def _restored(kept: Snapshot) -> State:
    state = State(kept.seed)
    state.seq, state.now_us, state.term, state.policy = kept.seq, kept.now_us, kept.term, kept.policy
    for pool in kept.pools:
        state.nodes.add_pool(pool)
    _fill_nodes(state, kept.nodes)
    state.jobs = {job.id: job for job in kept.jobs}
    state.attempts = {attempt.id: attempt for attempt in kept.attempts}
    state.reservations = {item.job: item for item in kept.reservations}
    state.timers, state.cordons, state.use = kept.timers, kept.cordons, kept.use
    state.early, state.ended, state.rounds, state.leased_us = kept.early, kept.ended, kept.rounds, kept.leased_us
    rebuild(state)
    return state


def _decoded(data: bytes) -> Snapshot:
    try:
        content = unseal(data)
        version = msgspec.json.decode(content, type=Envelope).version
        if version == VERSION:
            return msgspec.json.decode(content, type=Snapshot)
    except ValueError as error:
        raise BadInputError(f"not a snapshot of the core of version {VERSION}: {error}") from error
    raise BadInputError(f"snapshot of version {version}; this Argosy reads version {VERSION}; read it with its own")


def _fill_nodes(state: State, columns: dict[str, list[Any]]) -> None:
    """Fill the node table and count its trees anew."""
    nodes = state.nodes
    if len({len(columns[column]) for column in COLUMNS}) > 1:
        raise ValueError("columns of nodes differ in length")
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
