"""Turns the ends of waiting into findings: ranks that hold others up, groups that all entered, and circles.

A link is named only when no member is to blame and a probe of it failed. What can't be told apart is called unknown,
with what to ask next. Must not know how waits are followed.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from argosy.contracts.incident import Culprit, Evidence
from argosy.health.dumps_stacks import telling_frames
from argosy.health.finding import Finding
from argosy.health.mismatch import Mismatch
from argosy.health.scene import Scene
from argosy.health.traces import LinkProbe
from argosy.health.words import rank_words

SINGLY_MAX = 8
"""Ranks that fail alike on unknown hosts are told one by one up to so many, else together."""

# by how a rank fails: class, remedy, what to do about it
_KINDS = {
    "stopped": ("process.stopped", "restart_in_place", "{} is stopped: continue it (kill -CONT) or restart the job"),
    "died": ("process.died", "restart_in_place", "{} died: read the end of its log, then restart it"),
    "left": ("user.uneven_data", "fix_user_code", "{} ended while others go on: give every rank as many steps"),
    "unreachable": ("process.died", "cordon_replace", "{} does not answer: check its host, then replace it"),
    "silent": ("process.died", "restart_in_place", "{} left no trace: see if its process lives, and what it logged"),
    "mute": ("process.hang", "restart_in_place", "{} lives but wrote no trace: try py-spy dump --native on it"),
    "device": ("gpu.hang", "cordon_replace", "{} queued it but its device did not begin: look at its kernels and chip"),
    "data": ("process.data_stuck", "fix_user_code", "{} waits for data: check its workers and where they read from"),
    "checkpoint": ("process.save_stuck", "retry", "{} is saving: check the storage that it writes to"),
    "compile": ("process.hang", "retry", "{} compiles: wait, or share the compiler's cache between ranks"),
    "hang": ("process.hang", "fix_user_code", "{} never came to it: see its stack (py-spy dump) before it is killed"),
}
_SURE = ("stopped", "died", "left", "unreachable", "hang", "data", "checkpoint")


def of_roots(scene: Scene, roots: Sequence[int]) -> Iterator[Finding]:
    """Make findings of ranks (indices) that others wait for and that wait for nobody."""
    kinds = {index: _kind(scene, index) for index in roots}
    whole, rest = _whole_hosts(scene, kinds)
    for host, indices in whole.items():
        yield _of_host(scene, host, indices)
    quiet = [index for index in rest if kinds[index] == "silent"]
    if len(quiet) > len(scene.board.ranks) // 2:
        yield _of_uncollected(scene, quiet)
        rest = [index for index in rest if index not in set(quiet)]
    for indices in _alike(scene, rest, kinds):
        yield _of_ranks(scene, indices, kinds[indices[0]], alone=len(roots) == len(indices))


def _kind(scene: Scene, index: int) -> str:
    """Tell how a root fails: a key of _KINDS."""
    rank = int(scene.board.ranks[index])
    state, trace = scene.state(rank), scene.board.of_rank.get(rank)
    if state.state == "exited":
        return "left" if state.exit_code == 0 else "died"
    if state.state in ("stopped", "unreachable"):
        return state.state
    if trace is None:
        return "mute" if state.state == "running" else "silent"
    activity = scene.activity(index)
    if activity in ("data", "checkpoint", "compile"):
        return activity
    if trace.phase == "saving":
        return "checkpoint"
    return "device" if _queued(scene, index) else "hang"


def _queued(scene: Scene, index: int) -> bool:
    """Tell whether a rank's host queued what the others wait for, so that its device is what does not come."""
    board, waits = scene.board, scene.waits
    groups = set(waits.late_node[waits.late_rank == index].tolist())
    seats = [seat for seat in board.seats_of(index) if int(board.seat_group[seat]) in groups]
    return bool(seats) and all(board.enqueued[seat] >= waits.lowest[board.seat_group[seat]] for seat in seats)


def _whole_hosts(scene: Scene, kinds: dict[int, str]) -> tuple[dict[str, list[int]], list[int]]:
    """Part the roots into hosts of which every rank is lost, and the rest."""
    lost = {i: int(scene.board.ranks[i]) for i, kind in kinds.items() if kind in ("unreachable", "silent", "died")}
    numbers = set(lost.values())
    hosts = {scene.hosts[rank] for rank in numbers if rank in scene.hosts}
    whole = {host for host in hosts if len(scene.ranks_on[host]) > 1 and scene.ranks_on[host] <= numbers}
    by_host: dict[str, list[int]] = {}
    rest: list[int] = []
    for index in kinds:
        host = scene.hosts.get(int(scene.board.ranks[index]), "")
        (by_host.setdefault(host, []) if index in lost and host in whole else rest).append(index)
    return dict(sorted(by_host.items())), rest


def _alike(scene: Scene, roots: Iterable[int], kinds: dict[int, str]) -> list[list[int]]:
    """Put roots together that fail in one way on one host; on unknown hosts only where there are many."""
    together: dict[tuple[str, str, int], list[int]] = {}
    count = {kind: sum(each == kind for each in kinds.values()) for kind in kinds.values()}
    for index in roots:
        host = scene.hosts.get(int(scene.board.ranks[index]), "")
        apart = not host and count[kinds[index]] <= SINGLY_MAX
        together.setdefault((kinds[index], host, index if apart else -1), []).append(index)
    return list(together.values())


def _of_host(scene: Scene, host: str, indices: list[int]) -> Finding:
    ranks = scene.numbers(indices)
    answers = [scene.state(rank).state for rank in ranks]
    sure = all(state in ("unreachable", "exited") for state in answers)
    text = f"{host}: none of its {len(ranks)} ranks {'answers' if sure else 'left a trace'} ({rank_words(ranks)})"
    return Finding(
        fault_class="node.down",
        culprit=Culprit(kind="host", name=host),
        confidence="high" if sure else "medium",
        remedy="cordon_replace",
        advice=f"cordon {host}, restart on a spare; look at its console and power",
        evidence=(
            Evidence(source=host, text=text, at_us=_first_us(scene, ranks), layer="node"),
            *scene.wait_evidence(indices[0]),
        ),
        sufferers=scene.sufferers(indices),
        ranks=ranks,
        hosts=(host,),
        at_us=_first_us(scene, ranks),
    )


def _of_uncollected(scene: Scene, indices: list[int]) -> Finding:
    ranks = scene.numbers(indices)
    return Finding(
        fault_class="unknown",
        culprit=Culprit(kind="unknown"),
        confidence="low",
        remedy="retry",
        advice=f"collect the traces of {rank_words(ranks)} too; most ranks' traces are missing",
        evidence=scene.wait_evidence(indices[0]),
        sufferers=scene.sufferers(indices),
        ranks=ranks,
    )


def _of_ranks(scene: Scene, indices: list[int], kind: str, *, alone: bool) -> Finding:
    fault_class, remedy, advice = _KINDS[kind]
    ranks = scene.numbers(indices)
    name = rank_words(ranks)
    hosts = tuple(sorted({scene.hosts[rank] for rank in ranks if rank in scene.hosts}))
    sure = kind in _SURE and (alone or kind not in ("hang", "data", "checkpoint"))
    confidence = "high" if sure and not (kind == "hang" and _may_receive(scene, ranks[0])) else "medium"
    return Finding(
        fault_class=fault_class,
        culprit=Culprit(kind="rank", name=name),
        confidence=confidence,
        remedy=remedy,
        advice=advice.format(name),
        evidence=(*scene.wait_evidence(indices[0]), *_state_evidence(scene, ranks[0]), *_stack_evidence(scene, ranks)),
        sufferers=scene.sufferers(indices),
        ranks=ranks,
        hosts=hosts,
        at_us=_first_us(scene, ranks),
    )


def _may_receive(scene: Scene, rank: int) -> bool:
    """Tell whether a rank may wait for a message, for all that its trace and stack tell."""
    trace = scene.board.of_rank[rank]
    return not trace.notes_messages and not trace.stack


def _state_evidence(scene: Scene, rank: int) -> Iterator[Evidence]:
    state = scene.state(rank)
    if state.state not in ("unknown", "running"):
        code = "" if state.exit_code is None else f" with code {state.exit_code}"
        text = f"rank {rank}: {state.state}{code}{f', {state.detail}' if state.detail else ''}"
        yield Evidence(source=f"process of rank {rank}", text=text, at_us=state.at_us)


def _stack_evidence(scene: Scene, ranks: tuple[int, ...]) -> Iterator[Evidence]:
    trace = scene.board.of_rank.get(ranks[0])
    if trace and trace.stack:
        text = f"rank {ranks[0]} in {' < '.join(telling_frames(trace.stack))}"
        yield Evidence(source=f"stack of rank {ranks[0]}", text=text)
    if trace and trace.phase and trace.step >= 0:
        text = f"rank {ranks[0]} was in step {trace.step}, {trace.phase}"
        yield scene.evidence(ranks[0], text, layer="framework")


def _first_us(scene: Scene, ranks: Iterable[int]) -> int | None:
    times = [time for rank in ranks if (time := scene.last_seen_us(rank)) is not None]
    return min(times, default=None)


def of_mismatch(scene: Scene, mismatch: Mismatch) -> Finding:
    """Make a finding of a group whose members did not do the same thing."""
    group = scene.board.name(mismatch.group)
    ranks = scene.numbers(mismatch.odd or mismatch.members)
    others = sorted(set(scene.numbers(mismatch.members)) - set(ranks))
    usual, other = mismatch.usual.words, mismatch.other.words
    if mismatch.odd:
        text = f"{group}, number {mismatch.sequence}: {rank_words(ranks)} did {other}, {rank_words(others)} {usual}"
    else:
        text = f"{group}, number {mismatch.sequence}: some members did {other}, as many {usual}"
    hint = {"skipped": "; it left one out", "repeated": "; it did one more"}.get(mismatch.shift, "")
    return Finding(
        fault_class="user.collective_mismatch",
        culprit=Culprit(kind="rank", name=rank_words(ranks)) if mismatch.odd else Culprit(kind="code"),
        confidence="high" if mismatch.odd else "medium",
        remedy="fix_user_code",
        advice=f"make all ranks of {group} call the same collectives with the same {mismatch.kind}",
        evidence=(
            Evidence(
                source=f"traces of {group}", text=text + hint, at_us=mismatch.other.enqueued_us, layer="framework"
            ),
        ),
        sufferers=scene.sufferers(mismatch.odd, (mismatch.group,)),
        ranks=ranks,
        at_us=mismatch.other.enqueued_us,
    )


def of_stuck(scene: Scene, nodes: Sequence[int], *, explained: bool) -> Iterator[Finding]:
    """Make findings of groups and messages that all members entered and none leaves.

    explained: something else was found. Then what was entered last of all may only have been caught at work, since the
    ranks' dumps are not of one instant.
    """
    by_link: dict[tuple[str, str], tuple[LinkProbe, list[int]]] = {}
    dark = []
    for node in nodes:
        probe = _failed_probe(scene, members_of(scene, node))
        if probe is None:
            dark.append(node)
        else:
            by_link.setdefault(link_ends(scene, probe), (probe, []))[1].append(node)
    for probe, held in by_link.values():
        yield of_link(scene, probe, held, "process.link_stall", "does not carry")
    dark = [node for node in dark if not (explained and scene.is_fresh(node))]
    if dark:
        yield _of_dark(scene, dark)


def members_of(scene: Scene, node: int) -> tuple[int, ...]:
    """Name the ranks (numbers) at a node."""
    board = scene.board
    if node < len(board.groups):
        return scene.numbers(board.seat_rank[list(board.seats(node))].tolist())
    message = scene.waits.messages[node - len(board.groups)]
    ends = (message.waiter, message.peer) if message.peer >= 0 else (message.waiter,)
    return scene.numbers(ends)


def _failed_probe(scene: Scene, members: tuple[int, ...]) -> LinkProbe | None:
    return next((each for each in scene.liveness.probes if not each.ok and joins(scene, each, members)), None)


def joins(scene: Scene, probe: LinkProbe, members: Iterable[int]) -> bool:
    """Tell whether both ends of a probed link, or other ranks of their hosts, are among the members."""
    inside = set(members)
    hosts = {scene.hosts.get(rank, "") for rank in inside} - {""}
    return all(end in inside or scene.hosts.get(end, "") in hosts for end in (probe.first, probe.second))


def link_ends(scene: Scene, probe: LinkProbe) -> tuple[str, str]:
    """Name the ends of a link: hosts where they are known, else ranks."""
    first, second = (scene.hosts.get(end) or f"rank {end}" for end in (probe.first, probe.second))
    return (first, second) if first <= second else (second, first)


def of_link(scene: Scene, probe: LinkProbe, nodes: Sequence[int], fault_class: str, words: str) -> Finding:
    """Make a finding of a link that a probe shows to be bad."""
    ends = link_ends(scene, probe)
    name = " - ".join(ends)
    rate = "" if probe.gbytes_s is None else f", {probe.gbytes_s:.3g} GB/s"
    probed = f"probe between rank {probe.first} and rank {probe.second}: "
    probed += f"{'answered' if probe.ok else 'failed'}{rate}{f', {probe.detail}' if probe.detail else ''}"
    return Finding(
        fault_class=fault_class,
        culprit=Culprit(kind="link", name=name),
        confidence="high",
        remedy="cordon_replace",
        advice=f"{name} {words}: check ports, cables and counters of both ends; route or place around it",
        evidence=(*_inside(scene, nodes), Evidence(source="probe", text=probed, layer="fabric")),
        sufferers=scene.sufferers((), nodes),
        ranks=tuple(sorted((probe.first, probe.second))),
        hosts=tuple(sorted({scene.hosts[end] for end in (probe.first, probe.second) if end in scene.hosts})),
        at_us=None,
    )


def _inside(scene: Scene, nodes: Sequence[int]) -> Iterator[Evidence]:
    for node in list(nodes)[:3]:
        ranks = members_of(scene, node)
        if node < len(scene.board.groups):
            lowest = int(scene.waits.lowest[node])
            what = scene.what(node, lowest) if lowest >= 0 else "its collectives"
            text = f"{scene.board.name(node)}: all of {rank_words(ranks)} entered {what}"
        else:
            text = f"{rank_words(ranks)}: both are at their end of a message"
        yield Evidence(source=f"traces of {rank_words(ranks, runs_max=3)}", text=text, layer="runtime")


def _of_dark(scene: Scene, nodes: Sequence[int]) -> Finding:
    """Say that all entered and nothing tells which one fails, and whom to ask."""
    sets = [set(members_of(scene, node)) for node in nodes]
    ranks = tuple(sorted(set.intersection(*sets) or set.union(*sets)))
    mute = tuple(rank for rank in ranks if scene.state(rank).state != "running")
    if mute:
        advice = f"ask whether the process of {rank_words(mute)} runs: a stopped one may have entered already"
    else:
        advice = f"all of {rank_words(ranks)} answer: probe the links between them"
    return Finding(
        fault_class="unknown",
        culprit=Culprit(kind="unknown"),
        confidence="low",
        remedy="retry",
        advice=advice,
        evidence=tuple(_inside(scene, nodes)),
        sufferers=scene.sufferers([scene.board.index_of[rank] for rank in ranks], nodes),
        ranks=ranks,
        at_us=_first_us(scene, ranks),
    )


def of_circle(scene: Scene) -> Iterator[Finding]:
    """Make a finding of ranks that wait for each other: another order of collectives, else whoever stopped first."""
    circle = np.flatnonzero(scene.waits.cycles()).tolist()
    if not circle:
        return
    waits = scene.waits
    at = {(rank, node) for rank, node in zip(waits.wait_rank.tolist(), waits.wait_node.tolist(), strict=True)}
    late: dict[int, set[int]] = {}
    for node, rank in zip(waits.late_node.tolist(), waits.late_rank.tolist(), strict=True):
        late.setdefault(rank, set()).add(node)
    for rank in circle:
        for first in late.get(rank, ()):
            for second in (node for node in range(len(scene.board.groups)) if (rank, node) in at):
                there = [other for other in circle if (other, first) in at and second in late.get(other, ())]
                if there:
                    yield _of_order(scene, circle, first, second)
                    return
    ranks = scene.numbers(circle)
    seen = {rank: time for rank in ranks if (time := scene.last_seen_us(rank)) is not None}
    first_rank = min(seen, key=lambda rank: (seen[rank], rank)) if seen else None
    yield Finding(
        fault_class="process.hang",
        culprit=Culprit(kind="unknown") if first_rank is None else Culprit(kind="rank", name=f"rank {first_rank}"),
        confidence="low",
        remedy="fix_user_code",
        advice=f"{rank_words(ranks)} wait for each other in a circle; take their stacks with py-spy dump",
        evidence=()
        if first_rank is None
        else (scene.evidence(first_rank, f"rank {first_rank} was the first to stop"),),
        sufferers=scene.sufferers(circle),
        ranks=ranks if first_rank is None else (first_rank,),
        at_us=seen.get(first_rank) if first_rank is not None else None,
    )


def _of_order(scene: Scene, circle: list[int], first: int, second: int) -> Finding:
    waits = scene.waits
    sides = [
        [rank for rank in circle if ((waits.wait_rank == rank) & (waits.wait_node == node)).any()]
        for node in (first, second)
    ]
    sides.sort(key=len)
    names = [scene.board.name(node) for node in (first, second)]
    odd = scene.numbers(sides[0] if len(sides[0]) < len(sides[1]) else {*sides[0], *sides[1]})
    clear = len(sides[0]) < len(sides[1])
    waiting = " and ".join(rank_words(scene.numbers(side)) for side in sides)
    text = f"{waiting} wait for each other: one side is in {names[0]}, the other in {names[1]}"
    return Finding(
        fault_class="user.collective_mismatch",
        culprit=Culprit(kind="rank", name=rank_words(odd)) if clear else Culprit(kind="code"),
        confidence="high" if clear else "medium",
        remedy="fix_user_code",
        advice=f"make all ranks use {names[0]} and {names[1]} in one order",
        evidence=(Evidence(source=f"traces of {names[0]} and {names[1]}", text=text, layer="framework"),),
        sufferers=scene.sufferers(circle),
        ranks=odd,
        at_us=_first_us(scene, odd),
    )
