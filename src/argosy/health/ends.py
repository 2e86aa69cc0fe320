"""What must be finished where a trace doesn't tell: all that a member did before the collective that another has begun.

Older recorders of gloo write neither when an operation ended nor that it did. Must not know dumps, nor judge.
"""

from collections.abc import Sequence
from dataclasses import replace

from argosy.health.traces import GroupTrace, RankTraceOfGroups


def with_ends(traces: Sequence[RankTraceOfGroups]) -> tuple[RankTraceOfGroups, ...]:
    """Fill in what is finished in traces that don't tell, by how far the members of a group came.

    Ranks issue a group's collectives one after the other. So where one went on to the next, those before it are over
    for it; and where a member stopped at a number that others have passed, it is through with that number, too.
    """
    came: dict[tuple[str, int], tuple[int, int]] = {}
    for trace in traces:
        for group in trace.groups:
            if not group.ends_known and group.collectives:
                lowest, highest = came.get(_key(group), (group.enqueued, group.enqueued))
                came[_key(group)] = min(lowest, group.enqueued), max(highest, group.enqueued)
    if not came:
        return tuple(traces)
    return tuple(replace(trace, groups=tuple(_filled(group, came) for group in trace.groups)) for trace in traces)


def _filled(group: GroupTrace, came: dict[tuple[str, int], tuple[int, int]]) -> GroupTrace:
    if group.ends_known or not group.collectives:
        return group
    lowest, highest = came[_key(group)]
    over = lowest if highest > lowest else lowest - 1
    collectives = tuple(
        replace(each, state="finished") if each.sequence <= over else each for each in group.collectives
    )
    return replace(group, collectives=collectives, finished=max(group.finished, over))


def _key(group: GroupTrace) -> tuple[str, int]:
    return group.group, len(group.members)
