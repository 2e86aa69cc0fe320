"""All that is weighed when a culprit is named: where ranks are, who waits, who lives; and small questions to it.

Must not know in which order causes are looked for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argosy.contracts.incident import Evidence
from argosy.health.dumps_stacks import activity_of
from argosy.health.groups import Board, Flags
from argosy.health.traces import Collective, Liveness, RankState, RankTraceOfGroups
from argosy.health.waits import Waits
from argosy.health.words import rank_words

GONE = ("stopped", "exited", "unreachable")
EXITS_TOGETHER_US = 2_000_000
"""Exits this close to the first may be one event; later ones are what it did to others."""
BUSY = ("data", "checkpoint", "compile")
FRESH_US = 1_000_000
"""Dumps of one job are taken within about this time of each other."""

_UNKNOWN = RankState()


@dataclass(kw_only=True)
class Scene:
    """The board, the waits and what is known of the ranks besides."""

    board: Board
    waits: Waits
    liveness: Liveness

    @cached_property
    def hosts(self) -> dict[int, str]:
        """Give the host of every rank: told by its trace or state, else by number where hosts fill up in order."""
        found = {rank: trace.host for rank, trace in self.board.of_rank.items() if trace.host}
        found |= {rank: state.host for rank, state in self.liveness.ranks.items() if state.host}
        return found | _by_number(found, (rank for rank in self.board.ranks.tolist() if rank not in found))

    @cached_property
    def ranks_on(self) -> dict[str, set[int]]:
        """Give the ranks of every host."""
        found: dict[str, set[int]] = {}
        for rank, host in self.hosts.items():
            found.setdefault(host, set()).add(rank)
        return found

    def state(self, rank: int) -> RankState:
        """Give what is known of a rank's process."""
        return self.liveness.ranks.get(rank, _UNKNOWN)

    def is_uncollected(self, index: int) -> bool:
        """Tell whether all that speaks against a rank is that its trace is missing, while its host left others."""
        rank = int(self.board.ranks[index])
        traced = self.board.of_rank
        mates = self.ranks_on.get(self.hosts.get(rank, ""), {rank}) - {rank}
        alone = bool(mates) and mates.isdisjoint(traced)
        return rank not in traced and self.state(rank).state not in GONE and not alone

    def numbers(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Turn indices into rank numbers, ascending."""
        return tuple(sorted(int(self.board.ranks[index]) for index in indices))

    def activity(self, index: int) -> str:
        """Say what a rank is at by its stack; see dumps_stacks.ACTIVITIES."""
        trace = self.board.of_rank.get(int(self.board.ranks[index]))
        return activity_of(trace.stack) if trace else ""

    @cached_property
    def idle(self) -> Flags:
        """Tell which ranks have a trace, are not known to be gone or busy, and wait for nobody."""
        flags = ~self.waits.waiting & ~gone(self.board, self.liveness) & ~busy(self.board)
        traced = np.isin(self.board.ranks, np.array(list(self.board.of_rank), dtype=np.int64))
        return flags & traced

    def idles_with_others(self, index: int) -> bool:
        """Tell whether a rank and all others of its smallest group are idle."""
        board = self.board
        homes = [
            board.seats(int(board.seat_group[seat])) for seat in board.seats_of(index) if board.enqueued[seat] >= 0
        ]
        close = min((list(seats) for seats in homes if len(seats) > 1), key=len, default=[])
        return bool(close) and bool(self.idle[board.seat_rank[close]].all())

    def sufferers(self, ranks: Iterable[int], nodes: Iterable[int] = ()) -> tuple[int, ...]:
        """Give the ranks that only wait for these ranks (indices) or nodes."""
        own = list(ranks)
        held = self.waits.held_by(own, list(nodes))
        held[own] = False
        return tuple(self.board.ranks[held].tolist())

    def last_seen_us(self, rank: int) -> int | None:
        """Tell when a rank's trace last shows it doing something."""
        trace = self.board.of_rank.get(rank)
        return _last_us(trace) if trace else None

    @cached_property
    def newest_us(self) -> int | None:
        """Tell the last time in any trace."""
        times = (self.last_seen_us(rank) for rank in self.board.of_rank)
        return max((time for time in times if time is not None), default=None)

    def is_fresh(self, node: int) -> bool:
        """Tell whether a node's wait began so late that its dump may have caught it at work."""
        ranks = self.board.ranks[self.waits.wait_rank[self.waits.wait_node == node]].tolist()
        times = [time for rank in ranks if (time := self.last_seen_us(rank)) is not None]
        return bool(times) and self.newest_us is not None and max(times) > self.newest_us - FRESH_US

    def wait_evidence(self, index: int) -> tuple[Evidence, ...]:
        """Say where most ranks wait for a rank, and what it did last."""
        nodes = self.waits.late_node[self.waits.late_rank == index]
        if not len(nodes):
            return ()
        held = np.bincount(self.waits.wait_node, minlength=len(self.waits.stuck))
        node = int(nodes[np.argmax(held[nodes])])
        rank = int(self.board.ranks[index])
        waiting = f"{int(held[node])} rank{'' if held[node] == 1 else 's'} wait{'s' if held[node] == 1 else ''}"
        if node >= len(self.board.groups):
            message = self.waits.messages[node - len(self.board.groups)]
            group = self.board.name(message.group)
            text = f"{waiting} in {group} to {message.operation}; rank {rank} is not at its end of it"
            return (self.evidence(rank, text),)
        seat = next((seat for seat in self.board.seats_of(index) if int(self.board.seat_group[seat]) == node), None)
        if seat is None:
            what = self.what(node, int(self.waits.lowest[node]))
            text = (
                f"{waiting} in {self.board.name(node)} at {what}, whose members are not told; rank {rank} left no trace"
            )
            return (self.evidence(rank, text),)
        return (self.evidence(rank, f"{waiting} in {self._behind(node, seat, rank)}", seat=seat),)

    def _behind(self, group: int, seat: int, rank: int) -> str:
        needed = int(self.waits.lowest[group])
        text = f"{self.board.name(group)} for rank {rank} at {self.what(group, needed)}"
        if rank not in self.board.of_rank:
            return f"{text}; it left no trace"
        if self.board.entered[seat] >= needed:
            return f"{text}, which it entered"
        if self.board.enqueued[seat] >= needed:
            return f"{text}, which its host queued and its device did not begin"
        last = int(self.board.enqueued[seat])
        did = f"its last was number {last}" if last >= 0 else "its trace shows none there"
        return f"{text}, which it never entered; {did}"

    def what(self, group: int, sequence: int) -> str:
        """Name a group's collective, as the first member that tells has it."""
        entries = (self.board.at(seat, sequence) for seat in self.board.seats(group))
        entry = next((each for each in entries if each), None)
        return f"{entry.words if entry else 'a collective'}, number {sequence}"

    def evidence(self, rank: int, text: str, *, seat: int | None = None, layer: str = "runtime") -> Evidence:
        """Make a piece of evidence out of a rank's trace; with `seat`, timed by what it did last there."""
        trace = self.board.traces[seat] if seat is not None else None
        at_us = _latest(trace.collectives[-1:]) if trace else self.last_seen_us(rank)
        return Evidence(source=f"trace of rank {rank}", text=text, at_us=at_us, layer=layer)


def _by_number(known: Mapping[int, str], others: Iterable[int]) -> dict[int, str]:
    """Guess hosts by number: nothing unless each known host has one block of numbers to itself."""
    counts = Counter(known.values())
    size = max(counts.values(), default=0)
    if size < 2:
        return {}
    blocks = {(rank // size, host) for rank, host in known.items()}
    if len(blocks) != len(counts) or len({block for block, _ in blocks}) != len(blocks):
        return {}
    hosts = dict(blocks)
    return {rank: hosts.get(rank // size) or _unnamed(rank // size * size, size) for rank in others}


def _unnamed(first: int, size: int) -> str:
    return f"host of {rank_words(range(first, first + size))}"


def gone(board: Board, liveness: Liveness) -> Flags:
    """Tell which ranks don't run, by index; exits that follow another one are left out, for they may be its effect."""
    flags = np.zeros(len(board.ranks), dtype=bool)
    exits = {rank: state for rank, state in liveness.ranks.items() if state.state == "exited"}
    times = [state.at_us for state in exits.values() if state.at_us is not None]
    everyone = len(exits) > max(1, len(board.ranks) // 2)
    for rank, state in liveness.ranks.items():
        index = board.index_of.get(rank)
        if index is None or state.state not in GONE:
            continue
        if state.state == "exited" and times and state.at_us is not None:
            flags[index] = state.at_us <= min(times) + EXITS_TOGETHER_US
        else:
            flags[index] = not (state.state == "exited" and everyone)
    return flags


def busy(board: Board) -> Flags:
    """Tell which ranks' stacks show them at something else than a collective, though one of theirs may be open."""
    flags = np.zeros(len(board.ranks), dtype=bool)
    for rank, trace in board.of_rank.items():
        if trace.stack and activity_of(trace.stack) in BUSY:
            flags[board.index_of[rank]] = True
    return flags


def _last_us(trace: RankTraceOfGroups) -> int | None:
    return _latest(each for group in trace.groups for each in (*group.collectives[-1:], *group.messages))


def _latest(collectives: Iterable[Collective]) -> int | None:
    times = [
        time
        for each in collectives
        for time in (each.enqueued_us, each.started_us, each.finished_us)
        if time is not None
    ]
    return max(times, default=None)
