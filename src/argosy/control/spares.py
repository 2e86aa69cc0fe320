"""Keeping spares: so many healthy idle nodes of every pool of a site, taken from racks that are broken into already.

Chooses and frees; what spares are used for is `control.recover`.
"""

from argosy.control.change import SparesSet
from argosy.control.domains import SITE, pick
from argosy.control.nodes import FOREVER
from argosy.control.place import late_nodes, needed_until
from argosy.control.work import Work


def keep_spares(work: Work) -> None:
    """Bring the number of idle spares of each pool to what the policy asks, as far as nodes are free.

    A node whose maintenance is near is no spare.
    """
    state, nodes = work.state, work.state.nodes
    until_us = needed_until(state, FOREVER)
    for pool, pool_of in enumerate(nodes.pools):
        wanted = state.policy.spares.get(pool_of.site, 0)
        kept = sorted(number for number in nodes.idle_spares[pool] if nodes.until_us[number] >= until_us)[:wanted]
        released = nodes.idle_spares[pool].difference(kept)
        if released:
            work.change(SparesSet(nodes=tuple(sorted(released)), spare=False))
        for _ in range(wanted - len(kept)):
            with nodes.lent(late_nodes(state, pool, until_us)):
                domain = nodes.trees[pool].find(1, SITE)
                chosen = pick(domain, 1) if domain is not None else []
            if not chosen:
                break
            work.change(SparesSet(nodes=tuple(chosen), spare=True))
