"""Keeping spares: so many healthy idle nodes of every pool of a site, taken from racks that are broken into already.

Chooses and frees; what spares are used for is `control.recover`.
"""

from argosy.control.change import SparesSet
from argosy.control.domains import SITE, pick
from argosy.control.state import State
from argosy.control.work import Work


def keep_spares(work: Work) -> None:
    """Bring the number of idle spares of each pool to what the policy asks, as far as nodes are free."""
    state = work.state
    for pool, pool_of in enumerate(state.nodes.pools):
        wanted = state.policy.spares.get(pool_of.site, 0)
        kept = spares_of(state, pool)
        if len(kept) > wanted:
            work.change(SparesSet(nodes=tuple(kept[wanted:]), spare=False))
        for _ in range(wanted - len(kept)):
            domain = state.nodes.trees[pool].find(1, SITE)
            if domain is None:
                break
            work.change(SparesSet(nodes=tuple(pick(domain, 1)), spare=True))


def spares_of(state: State, pool: int) -> list[int]:
    """List the idle healthy spares of a pool."""
    return sorted(state.nodes.idle_spares[pool])
