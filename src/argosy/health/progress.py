"""What time-outs and sequence numbers in logs tell of the rank that is behind, where no line names a cause.

A time-out is printed by those who wait, so the rank that is missing among them is the one to look at. Must not know
dumps, which tell the same better (locate.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from argosy.health.clues import Clue

TIMEOUTS = ("timeout.watchdog", "timeout.gloo", "timeout.hccl_notify", "timeout.store")
# What rank 0 puts into the store for the others.
FIRST_KEYS = ("nccl_id", "ncclUniqueId", "/0//cuda//0", "0->", "rank_0", "store_based_barrier")
LIKELY_GROUP_SHARE = 0.5
EVEN_OPERATIONS = frozenset({"ALLREDUCE", "ALLREDUCE_COALESCED", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "ALLGATHER"})
"""Every member of a group gives as much to these."""
ENDED = "rank.ended_epoch"
"""The signature of a line by which a rank tells that it has no more data."""
GAP_RANKS_MIN = 3
"""Of fewer ranks that wait, one left out may be one whose log nobody gave."""


def from_progress(clues: Sequence[Clue]) -> list[Clue]:
    """Make causes of who is behind; none where time-outs and sequence numbers don't tell."""
    return (
        list(_mismatched(clues))
        or list(_sizes_differ(clues))
        or list(_ahead(clues))
        or list(_behind(clues))
        or list(_silent(clues))
        or list(_gone(clues))
        or list(_never_began(clues))
    )


def crowded(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Tell a store that more processes came to than the job has.

    Some are of an attempt before, so whatever ended that one is not why this one failed.
    """
    for clue in clues:
        if clue.signature == "launcher.store_barrier" and _count(clue, "count") > _count(clue, "world") > 0:
            yield replace(
                clue,
                role="cause",
                fault_class="launcher.stale_store",
                remedy="fix_config",
                culprit="configuration",
                strength=3,
                meaning="More processes came to the store than the job has: some are of an attempt before.",
            )
            return


def _behind(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Name the ranks that entered fewer collectives of a group than the others."""
    for ranks in _progress(clues):
        done = [
            _count(clue, "finished") for clue in ranks.values() if _count(clue, "enqueued") > _count(clue, "finished")
        ]
        # Ranks enqueue ahead, so only who has not even entered what the others wait in is behind.
        late = [clue for clue in ranks.values() if done and _count(clue, "enqueued") <= max(done)]
        if len(late) < max(2, LIKELY_GROUP_SHARE * len(ranks) + 1):
            yield from (_hang(clue, clue.rank, "It never entered what the others wait in.", 3) for clue in late)


def _ahead(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Name the one rank of a group that waits in a collective which none of the others, all at rest, has called."""
    for ranks in _progress(clues):
        waiting = [clue for clue in ranks.values() if _count(clue, "enqueued") > _count(clue, "finished")]
        if len(ranks) > 2 and len(waiting) == 1:
            text = "It alone waits in a collective that no other rank has called."
            first = waiting[0].rank == 0
            name = "user.rank0_only_work" if first else "user.collective_mismatch"
            yield replace(_hang(waiting[0], waiting[0].rank, text, 2), fault_class=name)


def _progress(clues: Sequence[Clue]) -> list[dict[int, Clue]]:
    """Give how far ranks came, by group."""
    groups: dict[str, dict[int, Clue]] = {}
    for clue in clues:
        if clue.signature == "trace.progress" and clue.rank is not None:
            groups.setdefault(clue.field("group") or clue.field("guid"), {})[clue.rank] = clue
    return list(groups.values())


def occupied(causes: Sequence[Clue], clues: Sequence[Clue]) -> list[Clue]:
    """Say why a rank that others name as missing does not come, where it tells: it has no more data, or other work."""
    ended = {clue.rank for clue in clues if clue.signature == ENDED}
    busy = any(clue.signature == "rank.busy" and clue.rank == 0 for clue in clues)
    return [_reasoned(cause, ended, busy) if cause.fault_class == "process.hang" else cause for cause in causes]


def _reasoned(hang: Clue, ended: set[int | None], first_is_busy: bool) -> Clue:
    if hang.rank is not None and hang.rank in ended:
        return replace(hang, fault_class="user.uneven_data")
    return replace(hang, fault_class="user.rank0_only_work") if hang.rank == 0 and first_is_busy else hang


def _count(clue: Clue, name: str) -> int:
    count = clue.number(name)
    return -1 if count is None else count


def _silent(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Name the rank that is known and did not time out while the others did."""
    timeouts = [clue for clue in clues if clue.signature in TIMEOUTS]
    waited = {clue.rank for clue in timeouts if clue.rank is not None}
    if not waited:
        return
    stacks = [clue for clue in clues if clue.signature == "rank.stack" and clue.rank not in waited]
    busy = [clue for clue in clues if clue.signature in ("rank.busy", ENDED) and clue.rank not in waited]
    elsewhere, strength = (stacks, 2) if stacks else (busy, 1)
    known = {clue.rank for clue in elsewhere if clue.rank is not None}
    if not known:
        # Ranks are numbered from 0 on, so a number that is left out between others is a rank, too.
        world = max((clue.number("world") or 0 for clue in clues), default=0)
        world = world or (1 + max(waited) if len(waited) >= GAP_RANKS_MIN else 0)
        known, strength = set(range(world)) - waited, 1
    if not known and 0 not in waited and all(_waits_for_first(clue) for clue in timeouts):
        known, strength = {0}, 1
    known -= _lost_peers(clues, timeouts[0].order)
    if len(known) != 1:
        return
    rank = known.pop()
    at = next((clue for clue in elsewhere if clue.rank == rank), timeouts[0])
    if at.signature == ENDED:
        text = "It came to the end of its data, and the others wait for it."
        yield replace(_hang(at, rank, text, 2), fault_class="user.uneven_data")
    elif rank == 0:
        text = "Rank 0 alone did not time out: it does work of its own while the others wait."
        yield replace(_hang(at, 0, text, strength), fault_class="user.rank0_only_work")
    else:
        yield _hang(at, rank, "It alone did not time out, so that the others wait for it.", strength)


def _gone(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Name the only rank that does not say that another was gone, where ranks are numbered from 0 on."""
    told = [clue for clue in clues if clue.signature == "nccl.peer_error" and clue.rank is not None]
    ranks = {clue.rank for clue in told if clue.rank is not None}
    left = set(range(1 + max(ranks, default=-1))) - ranks
    if len(left) == 1 and len(ranks) >= GAP_RANKS_MIN:
        text = "It alone does not say that another rank was gone, so that it was the one."
        yield replace(
            _hang(told[0], left.pop(), text, 1), fault_class="process.died", remedy="restart_in_place", host=""
        )


def _lost_peers(clues: Sequence[Clue], before: int) -> set[int]:
    """Give the ranks that failed since a peer was gone, before anybody's wait ended: they hold nobody up."""
    lost = (clue for clue in clues if clue.signature.startswith("nccl.peer_") and clue.order < before)
    return {clue.rank for clue in lost if clue.role == "symptom" and clue.rank is not None}


def _never_began(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Where several ranks time out in the first collective of all, they never could talk: the set-up is wrong."""
    timeouts = [clue for clue in clues if clue.signature == "timeout.watchdog"]
    ranks = {clue.rank for clue in timeouts}
    if len(ranks) > 1 and all(clue.field("sequence") in ("0", "1") for clue in timeouts):
        yield replace(
            timeouts[0],
            signature="progress.never_began",
            role="cause",
            fault_class="config.nccl_init",
            remedy="fix_config",
            culprit="configuration",
            strength=1,
            meaning="Not even the first collective ended, so that the ranks never could talk to each other.",
        )


def _waits_for_first(clue: Clue) -> bool:
    """Tell whether a rank waited in a barrier (an all-reduce of one element), or for what rank 0 sends as a rule."""
    if clue.signature == "timeout.store":
        return any(key in clue.line.text for key in FIRST_KEYS)
    operation = clue.field("operation")
    return operation in ("BARRIER", "BROADCAST", "SCATTER") or (operation == "ALLREDUCE" and clue.field("size") == "1")


def _mismatched(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Find ranks of one group that wait in different operations under one sequence number."""
    waits: dict[tuple[str, str], dict[str, list[Clue]]] = {}
    for clue in clues:
        if clue.signature == "timeout.watchdog" and clue.rank is not None:
            key = (clue.field("group"), clue.field("sequence"))
            waits.setdefault(key, {}).setdefault(clue.field("operation"), []).append(clue)
    for (group, sequence), operations in waits.items():
        if len(operations) > 1:
            fewest = min(operations.values(), key=len)
            alone = len(fewest) == 1
            at_end = alone and fewest[0].field("operation") == "BARRIER"
            if not group and not at_end and len(operations) > 2:
                continue
            names = " and ".join(sorted(operation.lower() for operation in operations))
            yield replace(
                fewest[0],
                signature="progress.mismatch",
                role="cause",
                fault_class="user.uneven_data" if at_end else "user.collective_mismatch",
                remedy="fix_user_code",
                culprit="rank" if alone else "code",
                strength=2,
                meaning=f"Ranks{f' of group {group}' if group else ''} wait in {names} as number {sequence}.",
            )


def _sizes_differ(clues: Sequence[Clue]) -> Iterator[Clue]:
    """Find the one rank that waits with another size than all others under one sequence number."""
    waits: dict[tuple[str, ...], dict[str, dict[int, Clue]]] = {}
    for clue in clues:
        if clue.signature == "timeout.watchdog" and clue.rank is not None and clue.field("size"):
            key = (clue.field("group"), clue.field("sequence"), clue.field("operation"))
            waits.setdefault(key, {}).setdefault(clue.field("size"), {})[clue.rank] = clue
    for (_, sequence, operation), sizes in waits.items():
        alone, *others = sorted(sizes.values(), key=len)
        if len(sizes) == 2 and len(alone) == 1 < len(others[0]) and operation in EVEN_OPERATIONS:
            odd, usual = next(iter(alone.values())), next(iter(others[0].values()))
            yield replace(
                odd,
                signature="progress.mismatch",
                role="cause",
                fault_class="user.collective_mismatch",
                remedy="fix_user_code",
                culprit="rank",
                strength=2,
                meaning=f"It waits with {odd.field('size')} elements as number {sequence}, "
                f"the others with {usual.field('size')}.",
            )


def _hang(clue: Clue, rank: int | None, meaning: str, strength: int) -> Clue:
    return replace(
        clue,
        signature="progress.behind",
        role="cause",
        fault_class="process.hang",
        remedy="fix_user_code",
        culprit="rank",
        rank=rank,
        strength=strength,
        meaning=meaning,
    )
