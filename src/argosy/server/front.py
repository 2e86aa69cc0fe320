"""Where hosts come to: the desk that talks with agents, the fleet with those that joined, and what ranks report.

Puts these together; must not know HTTP.
"""

from collections.abc import Callable, Mapping

from argosy.contracts.talk import Held
from argosy.server.compare import Comparer
from argosy.server.desk import Desk
from argosy.server.heart import Heart
from argosy.server.hosts import Hosts
from argosy.server.ledger import Rolls


class Front:
    """Desk, hosts and roll-ups of one service. note: is told what agents note: kind, node, text."""

    def __init__(self, heart: Heart, note: Callable[[str, str, str], None]) -> None:
        self.hosts = Hosts(heart.store, heart.loop, heart.ground)
        self.rolls = Rolls(heart.store, heart.loop)
        comparer = Comparer(self._held_of, heart.orders.musters, heart.orders.graces_s)
        self.desk = Desk(heart.loop, comparer, self.rolls, muster=heart.orders.muster, note=note)

    def _held_of(self, node: str) -> Mapping[str, Held]:
        return self.desk.held_of(node)
