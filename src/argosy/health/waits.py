"""Who waits for whom, followed across groups to those who wait for nobody.

In a group, whoever is inside a collective waits for the members that never entered it. A rank that others wait for and
that waits for nobody is a root; so is a group that all members entered and none leaves. What leads to no root is a
cycle. Must not know why a root does not move.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argosy.health.groups import Board, Flags, Ints
from argosy.health.traces import Collective

_FAR = np.iinfo(np.int64).max
ABSENT_MAX = 5_000_000
"""Of more pairs of groups and ranks without a trace nothing could be learnt."""

_OTHER_END = {"send": "receive", "receive": "send"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One open message, as indices of ranks and groups.

    peer: -1 where the trace does not tell. absent: for whom it waits: the peer unless it is at its own end of it; with
    no peer told, those members of the group that have no message open in it.
    """

    waiter: int
    peer: int
    group: int
    operation: str
    absent: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Waits:
    """The edges of waiting. A node is a group, or one rank's open message.

    wait_rank -> wait_node: the rank is held at the node. late_node -> late_rank: the node waits for the rank.
    lowest: by group, the lowest unfinished sequence; -1 where nothing is stuck. stuck: by node. messages: the nodes
    behind the groups.
    """

    wait_rank: Ints
    wait_node: Ints
    late_node: Ints
    late_rank: Ints
    lowest: Ints
    stuck: Flags
    messages: tuple[Message, ...]
    ranks: int

    @property
    def waiting(self) -> Flags:
        """Tell for each rank whether it waits."""
        flags = np.zeros(self.ranks, dtype=bool)
        flags[self.wait_rank] = True
        return flags

    def root_ranks(self) -> Ints:
        """Name the ranks that others wait for and that wait for nobody."""
        roots = np.zeros(self.ranks, dtype=bool)
        roots[self.late_rank] = True
        roots[self.wait_rank] = False
        return np.flatnonzero(roots)

    def root_nodes(self) -> Ints:
        """Name the nodes that are stuck with nobody late."""
        alone = self.stuck.copy()
        alone[self.late_node] = False
        return np.flatnonzero(alone)

    def held_by(self, ranks: Sequence[int] | Ints, nodes: Sequence[int] | Ints = ()) -> Flags:
        """Tell which ranks wait, directly or through others, for any of these."""
        held = np.zeros(self.ranks, dtype=bool)
        seen = np.zeros(len(self.stuck), dtype=bool)
        fresh_rank, fresh_node = np.zeros_like(held), np.zeros_like(seen)
        fresh_rank[np.asarray(ranks, dtype=np.int64)] = True
        fresh_node[np.asarray(nodes, dtype=np.int64)] = True
        while fresh_rank.any() or fresh_node.any():
            fresh_node[self.late_node[fresh_rank[self.late_rank]]] = True
            fresh_node &= ~seen
            seen |= fresh_node
            fresh_rank = np.zeros_like(held)
            fresh_rank[self.wait_rank[fresh_node[self.wait_node]]] = True
            fresh_rank &= ~held
            held |= fresh_rank
            fresh_node = np.zeros_like(seen)
        return held

    def cycles(self) -> Flags:
        """Tell which ranks wait for each other in a circle that leads to no root."""
        explained = self.held_by(self.root_ranks(), self.root_nodes())
        return self.waiting & ~explained


def follow(board: Board, dead: Flags, busy: Flags, patience_us: int) -> Waits:
    """Draw the edges of waiting.

    dead: by rank, those that can't be waiting since they don't run. busy: those that are known to do something else,
    whatever they have open. patience_us: what waits for less is not stuck, where the traces tell for how long.
    """
    elsewhere = dead | busy
    open_ = (board.entered > board.finished) & ~elsewhere[board.seat_rank]
    open_ &= ~_young(board, open_, patience_us)[board.seat_group]
    lowest = np.full(len(board.groups), _FAR, dtype=np.int64)
    np.minimum.at(lowest, board.seat_group[open_], board.finished[open_] + 1)
    stuck = lowest < _FAR
    # A dead member holds its group up wherever it died, also where it had entered already
    behind = (board.entered < lowest[board.seat_group]) | dead[board.seat_rank]
    late = stuck[board.seat_group] & behind
    absent_node, absent_rank = _absent(board, stuck, board.seat_group[late])
    messages = _messages(board, elsewhere, patience_us)
    return Waits(
        wait_rank=np.concatenate([board.seat_rank[open_], _column([each.waiter for each in messages])]),
        wait_node=np.concatenate([board.seat_group[open_], len(board.groups) + np.arange(len(messages))]),
        late_node=np.concatenate(
            [
                board.seat_group[late],
                absent_node,
                _column([len(board.groups) + place for place, each in enumerate(messages) for _ in each.absent]),
            ]
        ),
        late_rank=np.concatenate(
            [
                board.seat_rank[late],
                absent_rank,
                _column([rank for each in messages for rank in each.absent]),
            ]
        ),
        lowest=np.where(stuck, lowest, -1),
        stuck=np.concatenate([stuck, np.ones(len(messages), dtype=bool)]),
        messages=messages,
        ranks=len(board.ranks),
    )


def _absent(board: Board, stuck: Flags, held: Ints) -> tuple[Ints, Ints]:
    """Let groups that all known members entered, and whose members nobody lists, wait for ranks without a trace."""
    alone = stuck & board.open_ended
    alone[held] = False
    nodes = np.flatnonzero(alone)
    if len(nodes) * len(board.absent) > ABSENT_MAX:
        return _column([]), _column([])
    return np.repeat(nodes, len(board.absent)), np.tile(board.absent, len(nodes))


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _young(board: Board, open_: Flags, patience_us: int) -> Flags:
    """Tell which groups wait for less than patience; one that does not say for how long is not young."""
    young = np.zeros(len(board.groups), dtype=bool)
    old = np.zeros(len(board.groups), dtype=bool)
    for seat in np.flatnonzero(open_).tolist():
        trace, group = board.traces[seat], int(board.seat_group[seat])
        read_us = board.of_rank[int(board.ranks[board.seat_rank[seat]])].at_us
        if trace is None or read_us is None or old[group]:
            continue
        first = next((each for each in trace.collectives if each.state != "finished"), None)
        age_us = _age_us(first, read_us)
        young[group] |= age_us is not None and age_us < patience_us
        old[group] |= age_us is not None and age_us >= patience_us
    return young & ~old


def _age_us(message: Collective | None, read_us: int | None) -> int | None:
    if message is None or read_us is None:
        return None
    since_us = message.enqueued_us if message.started_us is None else message.started_us
    return None if since_us is None else read_us - since_us


def _messages(board: Board, elsewhere: Flags, patience_us: int) -> tuple[Message, ...]:
    """Find the open messages, and whom each waits for."""
    found: dict[tuple[int, int, int, str], None] = {}
    for seat, trace in enumerate(board.traces):
        if trace is None or not trace.messages or elsewhere[board.seat_rank[seat]]:
            continue
        waiter, group = int(board.seat_rank[seat]), int(board.seat_group[seat])
        read_us = board.of_rank[int(board.ranks[waiter])].at_us
        for each in trace.messages:
            age_us = _age_us(each, read_us)
            if age_us is None or age_us >= patience_us:
                peer = board.index_of.get(each.peer, -1) if each.peer is not None else -1
                found[waiter, peer, group, each.operation] = None
    busy = {(waiter, group) for waiter, _, group, _ in found}
    messages = []
    for waiter, peer, group, operation in found:
        if peer >= 0:
            answered = (peer, waiter, group, _OTHER_END.get(operation, "")) in found and not elsewhere[peer]
            absent = () if answered else (peer,)
        else:
            members = board.seat_rank[board.first_seat[group] : board.first_seat[group + 1]].tolist()
            absent = tuple(rank for rank in members if (rank, group) not in busy)
        messages.append(Message(waiter=waiter, peer=peer, group=group, operation=operation, absent=absent))
    return tuple(messages)
