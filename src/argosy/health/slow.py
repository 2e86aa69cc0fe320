"""Ranks that come late to their collectives again and again, and groups whose transfers take longer than their like.

Whoever comes last waits least inside, which needs no common clock; where a trace has no end times, times of entry are
compared. A rank that is late only because it waited for another in a second group is not to blame: the delay is
followed to the rank that nobody delays. Must not know of hangs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from argosy.contracts.incident import Culprit, Evidence
from argosy.health.finding import Finding
from argosy.health.groups import Board, Ints
from argosy.health.scene import Scene
from argosy.health.traces import Collective, LinkProbe
from argosy.health.verdicts import joins, link_ends, members_of, of_link
from argosy.health.words import rank_words

ROUNDS_MIN = 5
"""So many collectives of a group must be seen before its members are compared."""
LATE_MIN_US = 2_000.0
LATE_SHARE_MIN = 0.15
"""A rank is late from this share of the time between two collectives on."""
SLOW_TRANSFER = 2.0
"""A transfer is slow from so many times what groups of the same kind need on."""
SLOW_TRANSFER_MIN_US = 1_000.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRank:
    """One rank that others wait for. late_us: by how much it comes after the first of its group, at the median.

    period_us: the usual time between two collectives of that group.
    """

    rank: int
    group: int
    late_us: float
    period_us: float

    @property
    def share(self) -> float:
        """Give the part of the time that the others lose to it."""
        return self.late_us / self.period_us if self.period_us > 0 else 0.0


@dataclass(slots=True, kw_only=True)
class _Rounds:
    """Finished collectives that all members' traces hold: by entry, sorted by group and sequence.

    late_us: after the first member. transfer_us: by round, what the last to come still needed; nan where unknown.
    """

    seat: Ints
    round_: Ints
    late_us: Floats
    enter_us: Floats
    group: Ints
    transfer_us: Floats
    kind: list[tuple[str, str, int]]


def of_slow(scene: Scene) -> Iterator[Finding]:
    """Make findings of slow ranks and slow links."""
    rounds = _rounds(scene.board)
    if rounds is None:
        return
    slow = _blamed(scene.board, _lateness(scene.board, rounds))
    for each in slow[:8]:
        yield _of_rank(scene, each)
    yield from _of_transfers(scene, rounds)


def _rounds(board: Board) -> _Rounds | None:
    """Collect the rounds that can be compared."""
    rows: list[tuple[int, int, int, float, float]] = []
    kinds: dict[tuple[int, int], tuple[str, str, int]] = {}
    for seat, trace in enumerate(board.traces):
        group = int(board.seat_group[seat])
        for each in trace.collectives if trace else ():
            entered = _entered(each)
            if each.state == "finished" and entered is not None:
                end = float("nan") if each.finished_us is None else float(each.finished_us)
                rows.append((group, each.sequence, seat, float(entered), end))
                kinds[group, each.sequence] = (each.operation, each.dtype, each.size)
    if not rows:
        return None
    table = np.array(rows, dtype=np.float64)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    fresh = np.any(np.diff(table[:, :2], axis=0) != 0, axis=1)
    round_ = np.concatenate([[0], np.cumsum(fresh)]).astype(np.int64)
    first = np.flatnonzero(np.concatenate([[True], fresh]))
    group = table[first, 0].astype(np.int64)
    full = np.bincount(round_) == np.diff(board.first_seat)[group]
    full &= np.diff(board.first_seat)[group] > 1
    inside_us = table[:, 4] - table[:, 3]
    transfer_us = np.minimum.reduceat(inside_us, first)
    late_us = np.maximum.reduceat(inside_us, first)[round_] - inside_us
    after_us = table[:, 3] - np.minimum.reduceat(table[:, 3], first)[round_]
    keep = full[round_]
    return _Rounds(
        seat=table[keep, 2].astype(np.int64),
        round_=round_[keep],
        late_us=np.where(np.isnan(late_us), after_us, late_us)[keep],
        enter_us=table[keep, 3],
        group=group,
        transfer_us=np.where(full, transfer_us, np.nan),
        kind=[kinds[int(table[place, 0]), int(table[place, 1])] for place in first.tolist()],
    )


def _entered(each: Collective) -> int | None:
    return each.enqueued_us if each.started_us is None else each.started_us


@dataclass(slots=True, kw_only=True)
class _Lateness:
    """By seat: median lateness and period; rounds: how many were seen."""

    late_us: Floats
    period_us: Floats
    rounds: Ints


def _lateness(board: Board, rounds: _Rounds) -> _Lateness:
    count = len(board.traces)
    order = np.lexsort((rounds.late_us, rounds.seat))
    seats, late = rounds.seat[order], rounds.late_us[order]
    found = np.bincount(seats, minlength=count)
    first = np.concatenate([[0], np.cumsum(found)[:-1]])
    median = np.zeros(count)
    some = found > 0
    median[some] = late[first[some] + found[some] // 2]
    low = np.full(count, np.inf)
    high = np.full(count, -np.inf)
    np.minimum.at(low, rounds.seat, rounds.enter_us)
    np.maximum.at(high, rounds.seat, rounds.enter_us)
    period = np.where(found > 1, (high - low) / np.maximum(found - 1, 1), 0.0)
    return _Lateness(late_us=median, period_us=period, rounds=found)


def _blamed(board: Board, lateness: _Lateness) -> list[SlowRank]:
    """Choose the seats that are late, and drop those whose rank waits for a late one elsewhere."""
    late = (lateness.rounds >= ROUNDS_MIN) & (lateness.late_us >= LATE_MIN_US)
    late &= lateness.late_us >= LATE_SHARE_MIN * lateness.period_us
    worst = np.zeros(len(board.groups))
    np.maximum.at(worst, board.seat_group, np.where(late, lateness.late_us, 0.0))
    found: dict[int, SlowRank] = {}
    seats_of: dict[int, list[int]] = {}
    blamed = np.flatnonzero(late & (lateness.late_us >= 0.7 * worst[board.seat_group])).tolist()
    ranks = {int(board.seat_rank[seat]) for seat in blamed}
    for seat in np.flatnonzero(np.isin(board.seat_rank, np.array(sorted(ranks), dtype=np.int64))).tolist():
        seats_of.setdefault(int(board.seat_rank[seat]), []).append(seat)
    for seat in blamed:
        own_us, index = float(lateness.late_us[seat]), int(board.seat_rank[seat])
        delayed = any(
            worst[board.seat_group[other]] >= 0.5 * own_us
            and lateness.late_us[other] < 0.5 * worst[board.seat_group[other]]
            for other in seats_of[index]
        )
        slow = SlowRank(
            rank=int(board.ranks[index]),
            group=int(board.seat_group[seat]),
            late_us=own_us,
            period_us=float(lateness.period_us[seat]),
        )
        if not delayed and (index not in found or found[index].late_us < own_us):
            found[index] = slow
    return sorted(found.values(), key=lambda each: (-each.late_us, each.rank))


def _of_rank(scene: Scene, slow: SlowRank) -> Finding:
    group, rank = scene.board.name(slow.group), slow.rank
    others = [
        other for other in scene.numbers(scene.board.seat_rank[list(scene.board.seats(slow.group))]) if other != rank
    ]
    text = f"rank {rank} comes {slow.late_us / 1e3:.1f} ms after the first of {group}, at the median;"
    text += f" that is {slow.share:.0%} of the time between two collectives"
    host = scene.hosts.get(rank, "")
    return Finding(
        fault_class="process.slow_rank",
        culprit=Culprit(kind="rank", name=f"rank {rank}"),
        confidence="high" if slow.share >= 2 * LATE_SHARE_MIN else "medium",
        remedy="cordon_replace",
        advice=f"look at clocks, temperature and load of rank {rank}{f' on {host}' if host else ''}; then replace it",
        evidence=(scene.evidence(rank, text),),
        sufferers=tuple(others),
        ranks=(rank,),
        hosts=(host,) if host else (),
        at_us=None,
    )


def _of_transfers(scene: Scene, rounds: _Rounds) -> Iterator[Finding]:
    """Name the link that slow groups have in common, as far as probes tell; else the hosts they share."""
    slow = _slow_groups(scene.board, rounds)
    if not slow:
        return
    members = {group: members_of(scene, group) for group in slow}
    probe = _slow_probe(scene, members.values())
    evidence = tuple(
        Evidence(
            source=f"traces of {scene.board.name(group)}",
            text=f"transfers of {scene.board.name(group)} take {times:.1f} times what like groups need",
            layer="runtime",
        )
        for group, times in sorted(slow.items(), key=lambda item: -item[1])[:3]
    )
    if probe is not None:
        found = of_link(scene, probe, (), "network.slow", "is slow")
        yield _with(found, evidence, members.values())
        return
    shared = set.intersection(*({scene.hosts.get(rank, "") for rank in ranks} for ranks in members.values())) - {""}
    ranks = tuple(sorted(set.intersection(*map(set, members.values())) or set.union(*map(set, members.values()))))
    yield Finding(
        fault_class="network.slow",
        culprit=Culprit(kind="host", name=next(iter(shared))) if len(shared) == 1 else Culprit(kind="unknown"),
        confidence="low",
        remedy="cordon_replace",
        advice=f"probe the links between {rank_words(ranks)}",
        evidence=evidence,
        ranks=ranks,
        hosts=tuple(sorted(shared)),
    )


def _slow_groups(board: Board, rounds: _Rounds) -> dict[int, float]:
    """Compare each group's transfers with the median of groups of its kind and size; gives times the usual."""
    sizes = np.diff(board.first_seat)
    alike: dict[tuple[str, int, tuple[str, str, int]], dict[int, list[float]]] = {}
    for group, kind, transfer in zip(rounds.group.tolist(), rounds.kind, rounds.transfer_us.tolist(), strict=True):
        if transfer == transfer and kind[2] >= 0:
            key = (board.descriptions[group], int(sizes[group]), kind)
            alike.setdefault(key, {}).setdefault(group, []).append(transfer)
    slow: dict[int, float] = {}
    for by_group in alike.values():
        medians = {group: float(np.median(times)) for group, times in by_group.items() if len(times) >= 2}
        if len(medians) < 3:
            continue
        usual = max(float(np.median(list(medians.values()))), 1.0)
        for group, median in medians.items():
            if median > SLOW_TRANSFER * usual and median - usual > SLOW_TRANSFER_MIN_US:
                slow[group] = max(slow.get(group, 0.0), median / usual)
    return slow


def _slow_probe(scene: Scene, groups: Iterable[tuple[int, ...]]) -> LinkProbe | None:
    """Find the slowest probe that is far below the usual and lies inside every slow group that it may."""
    probes = scene.liveness.probes
    rates = [each.gbytes_s for each in probes if each.gbytes_s is not None and each.ok]
    usual = float(np.median(rates)) if rates else 0.0
    bad = [each for each in probes if not each.ok or (each.gbytes_s is not None and each.gbytes_s < 0.5 * usual)]
    inside = [each for each in bad if any(joins(scene, each, members) for members in groups)]
    return min(inside, key=lambda each: (each.ok, each.gbytes_s or 0.0, link_ends(scene, each)), default=None)


def _with(found: Finding, evidence: tuple[Evidence, ...], groups: Iterable[tuple[int, ...]]) -> Finding:
    members = sorted(set[int]().union(*groups) - set(found.ranks))
    return replace(found, evidence=(*evidence, *found.evidence), sufferers=tuple(members))
