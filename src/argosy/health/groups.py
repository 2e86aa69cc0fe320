"""All ranks' traces as arrays: one seat for each rank in each of its groups, so that 100,000 ranks are quick to follow.

Knows who is a member, who left no trace, and how far each seat came. Must not know who is to blame.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.errors import BadInputError
from argosy.health.ends import with_ends
from argosy.health.traces import Collective, GroupTrace, Liveness, RankTraceOfGroups

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

SEATS_MAX = 10_000_000
"""How many members all groups may have together: 100,000 ranks in a hundred groups each. One list of members, named for
many groups, makes a small dump large."""
WORLD = "default_pg"
"""How torch describes the group of all ranks; its members are known even where a dump does not list them."""


@dataclass(slots=True, kw_only=True)
class Board:
    """Where every rank is in every group.

    ranks: ascending; every other array of ranks holds indices into it. groups, descriptions: by group. seat_rank,
    seat_group: by seat, in order of groups; first_seat: where each group's seats begin, and the end. entered: the
    highest sequence that is proven to have begun: on the device where the group's traces tell, else on the host.
    enqueued, finished: see GroupTrace. silent: by seat, no trace. traces: by seat, None where silent. open_ended: by
    group, no trace lists its members. absent: ranks of the job without a trace that sit in no group.
    """

    ranks: Ints
    groups: tuple[str, ...]
    descriptions: tuple[str, ...]
    seat_rank: Ints
    seat_group: Ints
    first_seat: Ints
    enqueued: Ints
    entered: Ints
    finished: Ints
    silent: Flags
    open_ended: Flags
    absent: Ints
    traces: list[GroupTrace | None]
    of_rank: dict[int, RankTraceOfGroups]
    index_of: dict[int, int] = field(default_factory=dict)

    def seats(self, group: int) -> range:
        """Give the seats of a group."""
        return range(int(self.first_seat[group]), int(self.first_seat[group + 1]))

    def seats_of(self, rank: int) -> list[int]:
        """Give the seats of a rank (index)."""
        return np.flatnonzero(self.seat_rank == rank).tolist()

    def name(self, group: int) -> str:
        """Name a group for a person: what it is for, and which it is."""
        description, name = self.descriptions[group], self.groups[group].split("/")[0][:24]
        return name if description in ("", "undefined", name) else f"{description} {name}"

    def at(self, seat: int, sequence: int) -> Collective | None:
        """Find what a seat did as its `sequence`th collective; None where the trace does not hold it."""
        trace = self.traces[seat]
        for each in reversed(trace.collectives if trace else ()):
            if each.sequence == sequence:
                return each
        return None


def lay_out(traces: Sequence[RankTraceOfGroups], liveness: Liveness) -> Board:
    """Lay the traces of all ranks out; of two traces of one rank the last counts."""
    of_rank = {trace.rank: trace for trace in with_ends(traces)}
    columns = _Columns()
    for rank, trace in of_rank.items():
        for group in trace.groups:
            columns.add(rank, group)
    world = _all_ranks(of_rank, liveness)
    columns.add_silent(world)
    seat_rank_number = np.array(columns.rank, dtype=np.int64)
    ranks = np.unique(np.concatenate([seat_rank_number, np.array([*of_rank, *world], dtype=np.int64)]))
    seat_group = np.array(columns.group, dtype=np.int64)
    order = np.lexsort((seat_rank_number, seat_group))
    seat_group = seat_group[order]
    per_seat = [columns.traces[place] for place in order.tolist()]
    counts = np.array([_counts(each) for each in per_seat], dtype=np.int64).reshape(-1, 5)
    enqueued, started, finished, known, silent = counts.T
    count = len(columns.names)
    by_device = np.zeros(count, dtype=bool)
    by_device[seat_group[known > 0]] = True
    seen = np.isin(ranks, np.array([*of_rank, *seat_rank_number.tolist()], dtype=np.int64))
    return Board(
        ranks=ranks,
        groups=tuple(columns.names),
        descriptions=tuple(columns.descriptions),
        seat_rank=np.searchsorted(ranks, seat_rank_number[order]),
        seat_group=seat_group,
        first_seat=np.searchsorted(seat_group, np.arange(count + 1)),
        enqueued=enqueued,
        entered=np.where(by_device[seat_group], started, enqueued),
        finished=finished,
        silent=silent > 0,
        open_ended=np.array([not members for members in columns.members], dtype=bool),
        absent=np.flatnonzero(~seen),
        traces=per_seat,
        of_rank=of_rank,
        index_of={rank: index for index, rank in enumerate(ranks.tolist())},
    )


def _counts(trace: GroupTrace | None) -> tuple[int, int, int, int, int]:
    if trace is None:
        return -1, -1, -1, 0, 1
    return trace.enqueued, trace.started, trace.finished, int(trace.starts_known), 0


def _all_ranks(of_rank: Mapping[int, RankTraceOfGroups], liveness: Liveness) -> tuple[int, ...]:
    """Name all ranks of the job as far as traces and liveness tell: gaps in the numbers are ranks without a trace."""
    known = [*of_rank, *liveness.ranks]
    # a stray number, such as a date in a file's name, must not invent a million ranks
    highest = max(known, default=-1)
    return tuple(range(highest + 1)) if highest < 4 * len(known) + 64 else tuple(sorted(set(known)))


@dataclass(slots=True)
class _Columns:
    """Grows the columns of seats; groups are told apart by name and members."""

    rank: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    traces: list[GroupTrace | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    members: list[tuple[int, ...]] = field(default_factory=list)
    present: list[list[int]] = field(default_factory=list)
    _index: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=dict)
    # hashing a long tuple of members once for each of its seats would take longer than all the rest
    _seen: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, rank: int, trace: GroupTrace) -> None:
        """Seat one rank in one group."""
        quick = (trace.group, id(trace.members))
        index = self._seen.get(quick)
        if index is None:
            index = self._index.setdefault((trace.group, trace.members), len(self.names))
            if index == len(self.names):
                self.names.append(trace.group)
                self.descriptions.append(trace.description)
                self.members.append(trace.members)
                self.present.append([])
            self._seen[quick] = index
        self.present[index].append(rank)
        self._seat(rank, index, trace)

    def add_silent(self, world: tuple[int, ...]) -> None:
        """Seat the members of known groups that left no trace."""
        seats = len(self.rank)
        for index, present in enumerate(self.present):
            members = self.members[index] or (world if self.descriptions[index] == WORLD else ())
            seats += max(0, len(members) - len(present))
            if seats > SEATS_MAX:
                raise BadInputError(f"their groups have over {SEATS_MAX:,} members together")
            if len(present) < len(members):
                for rank in sorted(set(members) - set(present)):
                    self._seat(rank, index, None)
            self.members[index] = members

    def _seat(self, rank: int, index: int, trace: GroupTrace | None) -> None:
        self.rank.append(rank)
        self.group.append(index)
        self.traces.append(trace)
