"""Where hosts come to: the desk that talks with agents, the fleet with those that joined, and what ranks report.

Puts these together; must not know HTTP.
"""

import asyncio
from collections.abc import Callable, Mapping

from argosy.contracts.talk import Held
from argosy.control.state import State
from argosy.server.compare import Comparer
from argosy.server.desk import Desk
from argosy.server.heart import Heart
from argosy.server.hosts import Hosts
from argosy.server.ledger import Rolls


class Front:
    """Desk, hosts and roll-ups of one service. note: is told what agents note: kind, node, text."""

    def __init__(self, heart: Heart, note: Callable[[str, str, str], None]) -> None:
        self._loop = heart.loop
        self.hosts = Hosts(heart.store, heart.loop, heart.ground)
        self.rolls = Rolls(heart.store, heart.loop, note)
        comparer = Comparer(self._held_of, heart.orders.musters, heart.orders.graces_s)
        self.desk = Desk(heart.loop, comparer, self.rolls, muster=heart.orders.muster, note=note)

    async def begin(self) -> None:
        """Count from now on the silence of nodes that the last server heard."""
        expected, self.desk.lease_s = await asyncio.wrap_future(
            self._loop.ask(lambda state: (nodes_up(state), state.policy.lease_s))
        )
        self.desk.expect(expected)

    def _held_of(self, node: str) -> Mapping[str, Held]:
        return self.desk.held_of(node)


def nodes_up(state: State) -> list[str]:
    """List the nodes that were up when the last server ended, but for retired ones that nothing runs on."""
    nodes = state.nodes
    return [
        name
        for number, name in enumerate(nodes.name)
        if nodes.observed[number] == "up" and (nodes.holder[number] or not nodes.retired[number])
    ]
