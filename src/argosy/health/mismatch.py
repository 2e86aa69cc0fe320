"""Groups whose members did not do the same thing: another operation, data type or size at the same sequence.

The members that differ from most are named; where the group itself is split in halves, other groups of the same kind
decide. Must not know who waits for whom.
"""

from collections import Counter
from dataclasses import dataclass

from argosy.health.groups import Board, Ints
from argosy.health.traces import Collective

LOOK_BACK = 8
"""How many collectives before the one that hangs are compared: some backends take a wrong size without a word."""

Signature = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One group that disagrees.

    kind: operation, dtype or size. odd: ranks (indices) that differ from most; empty where no side is the larger.
    members: all ranks with a trace. shift: `skipped` or `repeated` where the odd ones are one collective ahead or
    behind, else empty.
    """

    group: int
    sequence: int
    kind: str
    odd: tuple[int, ...]
    members: tuple[int, ...]
    usual: Collective
    other: Collective
    shift: str = ""


def find_mismatches(board: Board, lowest: Ints) -> tuple[Mismatch, ...]:
    """Compare what the members of stuck groups did; lowest: by group the sequence that hangs, -1 where none does."""
    found = []
    for group, sequence in enumerate(lowest.tolist()):
        if sequence >= 0 and (mismatch := _first_of(board, group, sequence)):
            found.append(mismatch)
    return tuple(found)


def _first_of(board: Board, group: int, lowest: int) -> Mismatch | None:
    """Find the earliest sequence at which a group disagrees, looking back from where it hangs."""
    by_sequence: dict[int, dict[Signature, list[int]]] = {}
    for seat in board.seats(group):
        trace = board.traces[seat]
        for each in reversed(trace.collectives if trace else ()):
            if each.sequence < lowest - LOOK_BACK:
                break
            if each.sequence <= lowest:
                sides = by_sequence.setdefault(each.sequence, {})
                sides.setdefault((each.operation, each.dtype, each.size), []).append(seat)
    for sequence in sorted(by_sequence):
        sides = by_sequence[sequence]
        if len(sides) > 1 and (kind := _kind(sides)):
            return _describe(board, group, sequence, kind, sides)
    return None


def _kind(sides: dict[Signature, list[int]]) -> str:
    """Name in what the sides differ; what one side does not tell is no difference."""
    for place, name in enumerate(("operation", "dtype", "size")):
        told = {side[place] for side in sides} - {"", -1, "unknown"}
        if len(told) > 1:
            return name
    return ""


def _describe(board: Board, group: int, sequence: int, kind: str, sides: dict[Signature, list[int]]) -> Mismatch:
    place = ("operation", "dtype", "size").index(kind)
    merged: dict[object, list[int]] = {}
    for side, seats in sides.items():
        merged.setdefault(side[place], []).extend(seats)
    ordered = sorted(merged.items(), key=lambda item: -len(item[1]))
    if len(ordered[0][1]) == len(ordered[1][1]):
        votes = _siblings(board, group, sequence, place)
        ordered.sort(key=lambda item: (-len(item[1]), -votes[item[0]]))
        tie = votes[ordered[0][0]] == votes[ordered[1][0]]
    else:
        tie = False
    usual, odd = ordered[0][1], [seat for _, seats in ordered[1:] for seat in seats]
    return Mismatch(
        group=group,
        sequence=sequence,
        kind=kind,
        odd=() if tie else tuple(sorted(int(board.seat_rank[seat]) for seat in odd)),
        members=tuple(sorted(int(board.seat_rank[seat]) for seat in usual + odd)),
        usual=_entry(board, usual[0], sequence),
        other=_entry(board, odd[0], sequence),
        shift=_shift(board, usual[0], odd[0], sequence),
    )


def _siblings(board: Board, group: int, sequence: int, place: int) -> Counter[object]:
    """Count what groups of the same kind did at the same sequence: one vote a group, of its first member that tells."""
    votes: Counter[object] = Counter()
    description = board.descriptions[group]
    for other, words in enumerate(board.descriptions):
        if other == group or words != description or not description:
            continue
        entries = (board.at(seat, sequence) for seat in board.seats(other))
        if entry := next((each for each in entries if each), None):
            votes[(entry.operation, entry.dtype, entry.size)[place]] += 1
    return votes


def _entry(board: Board, seat: int, sequence: int) -> Collective:
    return board.at(seat, sequence) or Collective(sequence=sequence, operation="unknown")


def _shift(board: Board, usual: int, odd: int, sequence: int) -> str:
    """Tell whether the odd one left a collective out, or did one more than the others."""
    here, there = board.at(usual, sequence), board.at(odd, sequence)
    here_next, there_next = board.at(usual, sequence + 1), board.at(odd, sequence + 1)
    if there and here_next and there.words == here_next.words:
        return "skipped"
    if here and there_next and here.words == there_next.words:
        return "repeated"
    return ""
