"""Names the rank, host or link that holds a job up, from the traces of its ranks.

Per group the lowest unfinished sequence; who never entered is late; waits are followed across groups to those who wait
for nobody. A group whose members did different things explains its own hang. If all entered, members are asked whether
they live before a link is named, and unknown is an answer. If nothing is stuck, slow ranks and links are looked for.
Must not know where traces come from.
"""

from collections.abc import Sequence

from argosy.health.finding import Finding
from argosy.health.groups import lay_out
from argosy.health.mismatch import Mismatch, find_mismatches
from argosy.health.scene import Scene, busy, gone
from argosy.health.slow import of_slow
from argosy.health.traces import Liveness, RankTraceOfGroups
from argosy.health.verdicts import of_circle, of_mismatch, of_roots, of_stuck
from argosy.health.waits import follow

PATIENCE_US = 10_000_000
"""What is open for less is work, not a hang, where traces say when they were read."""

_ASKED_NOBODY = Liveness()


def locate(
    traces: Sequence[RankTraceOfGroups], liveness: Liveness = _ASKED_NOBODY, *, patience_us: int = PATIENCE_US
) -> tuple[Finding, ...]:
    """Find what holds the ranks up: nothing, one fault or several, those that hold most ranks first.

    traces: of all ranks that left one; a missing rank is noticed where its group's members are known. liveness: what
    was asked of processes and links besides. patience_us: see PATIENCE_US.
    """
    if not traces:
        return ()
    board = lay_out(traces, liveness)
    waits = follow(board, gone(board, liveness), busy(board), patience_us)
    scene = Scene(board=board, waits=waits, liveness=liveness)
    mismatches = find_mismatches(board, waits.lowest)
    found = [of_mismatch(scene, each) for each in mismatches]
    found += of_roots(scene, _roots(scene, mismatches))
    explained = {each.group for each in mismatches}
    stuck = [node for node in waits.root_nodes().tolist() if node not in explained]
    found += of_stuck(scene, stuck, explained=bool(found))
    found += of_circle(scene)
    return tuple(found) if found else tuple(of_slow(scene))


def _roots(scene: Scene, mismatches: Sequence[Mismatch]) -> list[int]:
    """Choose the ranks that are to answer for their waiters."""
    odd = {index for each in mismatches for index in each.odd}
    disputed = {each.group for each in mismatches}
    roots = [
        index
        for index in scene.waits.root_ranks().tolist()
        if index not in odd and not (_is_gone(scene, index) and _waited_for(scene, index) <= disputed)
    ]
    # A rank whose stack is inside a collective that no trace holds waits, too; unless there is nobody else
    apart = [index for index in roots if scene.activity(index) != "collective"] or roots
    # Where all of a rank's closest group idle alike, they may wait for a message that no trace holds
    alone = [index for index in apart if not scene.idles_with_others(index)]
    return _without_needless(scene, alone or ([] if mismatches else apart))


def _without_needless(scene: Scene, roots: list[int]) -> list[int]:
    """Leave out ranks that only lack a trace, where whoever waits for them waits for the other roots as well.

    Traces get lost. A host of which no rank left one is lost itself.
    """
    untraced = {index for index in roots if scene.is_uncollected(index)}
    others = [index for index in roots if index not in untraced]
    if not untraced or not others:
        return roots
    waits = scene.waits
    explained = waits.held_by(others)
    explained[others] = True
    nodes = set(waits.late_node[explained[waits.late_rank]].tolist())
    return [index for index in roots if index not in untraced or not _waited_for(scene, index) <= nodes]


def _is_gone(scene: Scene, index: int) -> bool:
    """Tell whether a rank ended or just vanished, which taking part in a mismatch may do to it."""
    rank = int(scene.board.ranks[index])
    state = scene.state(rank).state
    return state == "exited" or (state == "unknown" and rank not in scene.board.of_rank)


def _waited_for(scene: Scene, index: int) -> set[int]:
    return set(scene.waits.late_node[scene.waits.late_rank == index].tolist())
