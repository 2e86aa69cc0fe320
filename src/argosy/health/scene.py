"""All that is weighed when a culprit is named: where ranks are, who waits, who lives; and small questions to it.

Must not know in which order causes are looked for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from argosy.contracts.incident import Evidence
from argosy.health.groups import Board, Flags
from argosy.health.traces import Collective, Liveness, RankState, RankTraceOfGroups
from argosy.health.waits import Waits
from argosy.health.words import rank_words

GONE = ("stopped", "exited", "unreachable")
EXITS_TOGETHER_US = 2_000_000
"""Exits this close to the first may be one event; later ones are what it did to others."""
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
        """Give the host of every rank whose host is known."""
        found = {rank: trace.host for rank, trace in self.board.of_rank.items() if trace.host}
        return found | {rank: state.host for rank, state in self.liveness.ranks.items() if state.host}

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

    def numbers(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Turn indices into rank numbers, ascending."""
        return tuple(sorted(int(self.board.ranks[index]) for index in indices))

    def sufferers(self, ranks: Iterable[int], nodes: Iterable[int] = ()) -> tuple[str, ...]:
        """Say who only waits for these ranks (indices) or nodes."""
        own = list(ranks)
        held = self.waits.held_by(own, list(nodes))
        held[own] = False
        waiting = self.board.ranks[held].tolist()
        return (rank_words(waiting),) if waiting else ()

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
        seat = next(seat for seat in self.board.seats(node) if int(self.board.seat_rank[seat]) == index)
        return (self.evidence(rank, f"{waiting} in {self._behind(node, seat, rank)}", seat=seat),)

    def _behind(self, group: int, seat: int, rank: int) -> str:
        needed = int(self.waits.lowest[group])
        text = f"{self.board.name(group)} for rank {rank} at {self.what(group, needed)}"
        if self.board.silent[seat]:
            return f"{text}; it left no trace"
        if self.board.entered[seat] >= needed:
            return f"{text}, which it entered"
        if self.board.enqueued[seat] >= needed:
            return f"{text}, which its host queued and its device did not begin"
        return f"{text}, which it never entered; its last was number {int(self.board.enqueued[seat])}"

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
