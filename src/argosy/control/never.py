"""What can never run: wishes beyond all nodes there are, or beyond what the queue may ever hold.

Looks at what is owned, never at what is free. Must not refuse what merely has to wait.
"""

from argosy.control.domains import LEVELS, NODE
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State


def never_fits(state: State, job: JobState, rungs: tuple[Rung, ...]) -> str:
    """Say why no rung can ever start, one reason for each; empty if any can."""
    reasons = []
    for rung in rungs:
        reason = _reason(state, job, rung)
        if not reason:
            return ""
        reasons.append(reason)
    return "; ".join(dict.fromkeys(reasons)) or "no option names a pool of this fleet"


def _reason(state: State, job: JobState, rung: Rung) -> str:
    """Say why a rung can never start, empty if it can."""
    wanted: dict[int, int] = {}
    for part in rung.parts:
        wanted[part.pool] = wanted.get(part.pool, 0) + part.nodes
        tree, name = state.nodes.trees[part.pool], state.nodes.pools[part.pool].name
        most = 1 if part.level == NODE else tree.widest(part.level)
        if part.nodes > most:
            near, most = LEVELS[part.level], min(most, tree.top.owned)
            nodes = f"{part.nodes} {name} node{'' if part.nodes == 1 else 's'}"
            return f"{rung.option}: {nodes} in one {near}, the largest {near} has {most}"
        if wanted[part.pool] > tree.top.owned:
            nodes = f"{wanted[part.pool]} {name} node{'' if wanted[part.pool] == 1 else 's'}"
            return f"{rung.option}: {nodes}, the fleet owns {tree.top.owned}"
    excess = state.quota.never(state.queue_of(job), state.amounts_of(rung))
    if excess is not None:
        return f"{rung.option}: {excess.asked} {excess.kind}, queue {excess.queue} may hold {excess.allowed}"
    return ""
