"""What a set of dumps says together: stacks are put beside traces, both are located, and RAS adds what it saw.

Must not know files, nor logs.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from argosy.contracts.incident import Culprit, Evidence
from argosy.health.dumps import Dump
from argosy.health.dumps_ras import RasPlace, RasReport
from argosy.health.dumps_stacks import StackTree, activity_of, merge_stacks, tree_lines
from argosy.health.finding import Finding
from argosy.health.locate import locate
from argosy.health.traces import Liveness, RankTraceOfGroups
from argosy.health.words import rank_words

_ASKED_NOBODY = Liveness()
TREE_LINES_MAX = 6
"""So many lines of a tree of stacks are kept as evidence."""


def findings_of_dumps(dumps: Sequence[Dump], liveness: Liveness = _ASKED_NOBODY) -> tuple[Finding, ...]:
    """Find what a set of dumps shows to be wrong; liveness: what else is known of ranks and links."""
    stacks = stacks_by_rank(dumps)
    traces = traces_of(dumps, stacks)
    found = [_with_stacks(finding, traces, stacks) for finding in locate(traces, liveness)]
    if not found and stacks:
        found += _of_stacks(stacks)
    for dump in dumps:
        if dump.ras is not None:
            found += _of_ras(dump.name, dump.ras)
    return tuple(found)


def traces_of(dumps: Iterable[Dump], stacks: Mapping[int, tuple[str, ...]]) -> tuple[RankTraceOfGroups, ...]:
    """Gather the traces, each with its rank's stack where there is one.

    A rank with a stack and no trace gets one without groups, for its stack tells what it does instead of dumping.
    """
    traces = [dump.trace for dump in dumps if dump.trace is not None]
    traced = {trace.rank for trace in traces}
    if traces and stacks:
        traces = [replace(trace, stack=stacks.get(trace.rank, trace.stack)) for trace in traces]
        traces += [RankTraceOfGroups(rank=rank, stack=stacks[rank]) for rank in sorted(set(stacks) - traced)]
    return tuple(traces)


def stacks_by_rank(dumps: Iterable[Dump]) -> dict[int, tuple[str, ...]]:
    """Give the main thread's frames, innermost first, of every rank whose stacks were dumped."""
    found = {}
    for dump in dumps:
        main = dump.stacks[0].main if len(dump.stacks) == 1 and dump.rank is not None else None
        if main is not None and dump.rank is not None:
            found[dump.rank] = main.frames
    return found


def trees_by_group(traces: Iterable[RankTraceOfGroups], stacks: Mapping[int, tuple[str, ...]]) -> dict[str, StackTree]:
    """Merge the stacks of each group's ranks into one tree; ranks in no trace make a tree of their own, named ``."""
    ranks_of: dict[str, list[int]] = {}
    traced = set()
    for trace in traces:
        traced.add(trace.rank)
        for group in trace.groups:
            ranks_of.setdefault(group.group, []).append(trace.rank)
    ranks_of[""] = [rank for rank in stacks if rank not in traced]
    trees = {
        group: merge_stacks((rank, stacks[rank]) for rank in sorted(ranks) if rank in stacks)
        for group, ranks in ranks_of.items()
    }
    return {group: tree for group, tree in trees.items() if tree.ranks}


def _with_stacks(
    finding: Finding, traces: Iterable[RankTraceOfGroups], stacks: Mapping[int, tuple[str, ...]]
) -> Finding:
    """Add where the culprit's group is, by its smallest group with stacks of others."""
    if not stacks or not finding.ranks:
        return finding
    trees = [tree for tree in trees_by_group(traces, stacks).values() if len(tree.ranks) > 1]
    own = [tree for tree in trees if set(finding.ranks) & set(tree.ranks)]
    if not own:
        return finding
    lines = tree_lines(min(own, key=lambda tree: len(tree.ranks)), brief=True, lines_max=TREE_LINES_MAX)
    added = (Evidence(source="stacks", text=line, layer="framework") for line in lines)
    return replace(finding, evidence=(*finding.evidence, *added))


def _of_stacks(stacks: Mapping[int, tuple[str, ...]]) -> Iterator[Finding]:
    """Name the few ranks that are elsewhere while most are inside a collective; stacks alone prove no more."""
    doing = {rank: activity_of(frames) for rank, frames in stacks.items()}
    inside = sorted(rank for rank, activity in doing.items() if activity == "collective")
    odd = sorted(set(stacks) - set(inside))
    if not odd or len(odd) >= len(inside):
        return
    at = Counter(doing[rank] for rank in odd).most_common(1)[0][0]
    fault_class, remedy = {
        "data": ("process.data_stuck", "fix_user_code"),
        "checkpoint": ("process.save_stuck", "retry"),
    }.get(at, ("process.hang", "fix_user_code"))
    tree = tree_lines(merge_stacks(sorted(stacks.items())), brief=True, lines_max=TREE_LINES_MAX)
    yield Finding(
        fault_class=fault_class,
        culprit=Culprit(kind="rank", name=rank_words(odd)),
        confidence="medium",
        remedy=remedy,
        advice=f"{rank_words(odd)} is outside of the collective that {len(inside)} ranks are in; see its stack",
        evidence=tuple(Evidence(source="stacks", text=line) for line in tree),
        sufferers=tuple(inside),
        ranks=tuple(odd),
    )


def _of_ras(name: str, report: RasReport) -> Iterator[Finding]:
    """Make findings of what RAS calls dead, unresponsive or behind.

    A count that is one or two behind is normal while a job runs, so it is but a hint.
    """
    by_problem: dict[str, list[RasPlace]] = {}
    for place in report.places:
        by_problem.setdefault(place.problem, []).append(place)
    lost = by_problem.get("dead", []) or by_problem.get("unresponsive", [])
    if lost:
        yield _of_lost(name, lost, by_problem.get("missing", []), dead="dead" in by_problem)
    elif behind := by_problem.get("behind", []):
        yield _of_behind(name, behind)


def _of_lost(name: str, places: list[RasPlace], missing: list[RasPlace], *, dead: bool) -> Finding:
    nodes = sorted({place.node for place in places if place.node})
    words = "dead" if dead else "not answering"
    seen = {(place.node, place.pid): place for place in places}
    ranks = {place.rank for place in (*places, *missing) if place.rank >= 0}
    lines = [f"process {place.pid} on {place.node}, GPU {place.gpu}: {words}" for place in list(seen.values())[:8]]
    return Finding(
        fault_class="process.died" if dead else "process.stopped",
        culprit=Culprit(kind="host", name=nodes[0]) if len(nodes) == 1 else Culprit(kind="unknown"),
        confidence="high" if dead else "medium",
        remedy="restart_in_place",
        advice=f"look at {', '.join(nodes[:4]) or 'the missing ranks'}: is the process there, and does it run?",
        evidence=tuple(Evidence(source=name, text=line, layer="runtime") for line in lines),
        ranks=tuple(sorted(ranks)),
        hosts=tuple(nodes),
    )


def _of_behind(name: str, places: list[RasPlace]) -> Finding:
    nodes = sorted({place.node for place in places if place.node})
    ranks = sorted({place.rank for place in places if place.rank >= 0})
    communicators = sorted({place.communicator for place in places})
    lines = [
        f"communicator {place.communicator}: its rank {place.rank} on {place.node or 'an unknown node'} is at operation"
        f" {place.count}, behind most"
        for place in places[:8]
    ]
    alone = len(communicators) == 1
    return Finding(
        fault_class="process.hang",
        culprit=Culprit(kind="rank", name=f"{rank_words(ranks)} of communicator {communicators[0]}")
        if alone
        else Culprit(kind="unknown"),
        confidence="low",
        remedy="fix_user_code",
        advice="ask again in ten seconds: if the counts have not moved, take stacks of the ranks that are behind",
        evidence=tuple(Evidence(source=name, text=line, layer="runtime") for line in lines),
        ranks=tuple(ranks),
        hosts=tuple(nodes),
    )
