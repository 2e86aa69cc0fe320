"""How hosts come to the fleet: a join token becomes a node and a key of its own; and whose key it is.

Must not know how agents talk after that.
"""

import secrets
import threading
from collections.abc import Collection

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.contracts.event import FleetDescribed, NodesRetired
from argosy.contracts.talk import HostFacts, JoinAnswer, JoinAsk
from argosy.control.state import State
from argosy.server.ground import Ground, joined, seat, without
from argosy.server.loop import Loop, wall_us
from argosy.server.store import Statement, Store
from argosy.server.tokens import audited, digest

KEY_BYTES = 24


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an agent. made: its node is not in the fleet file. agent: its own id."""

    agent: str
    facts: HostFacts
    made: bool


class Hosts:
    """Agents and the fleet as it is with them."""

    def __init__(self, store: Store, loop: Loop, ground: Ground) -> None:
        self._store, self._loop = store, loop
        self._lock = threading.Lock()
        rows = store.read("SELECT node, hash, facts FROM agent ORDER BY at_us, node")
        kept = {node: msgspec.json.decode(data, type=_Kept) for node, _, data in rows}
        # An agent whose node was retired is remembered, without a key, so that it is not taken for a new host.
        self._keys = {node: key for node, key, _ in rows if key}
        self._nodes = {key: node for node, key in self._keys.items()}
        self._agents = {one.agent: node for node, one in kept.items()}
        self._made = {node for node in self._keys if kept[node].made}
        self.ground = joined(ground, [(node, one.facts) for node, one in kept.items() if node in self._made])

    def describe(self, *, retire_missing: bool) -> None:
        """Tell the core of nodes that are new; waits for the commit. retire_missing: strike out those not in the fleet.

        Raises BadInputError where the core knows nodes that the fleet no longer has, unless they are to be struck out.
        """
        missing, gone = self._loop.ask(lambda state: _others(state, self.ground.nodes)).result()
        if missing and not retire_missing:
            names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            count = f"{len(missing)} node{'' if len(missing) == 1 else 's'}"
            text = f"the fleet no longer has {count} that this service knows: {names}"
            raise BadInputError(f"{text}; name the file they are in, or strike them out for good: --retire-missing")
        self.ground = without(self.ground, gone)
        nodes = tuple(self.ground.nodes.values())
        self._loop.send(FleetDescribed, pools=self.ground.pools(), nodes=nodes).result()
        if missing:
            self._strike_out(missing, "--retire-missing")

    def node_of(self, key: str) -> str:
        """Find whose key it is; empty for nobody's."""
        return str(self._nodes.get(digest(key), ""))

    def join(self, ask: JoinAsk) -> JoinAnswer:
        """Give a host its node and key; waits until that is on disk. The token was checked by whoever calls.

        A node that is down for longer than its lease goes to whoever wishes for it by name: its agent's folder may be
        lost. Raises BadInputError for a host that can't be a node.
        """
        if not ask.agent or len(ask.agent) > 200:
            raise BadInputError("agent: an agent has to say its own id, which it draws once and keeps")
        with self._lock:
            known = self._agents.get(ask.agent, "")
            if known and ask.node and ask.node != known:
                raise BadInputError(f"this agent is node {known} already, not {ask.node}; give it another state folder")
            taken = self._keys.keys() - {known}
            left = "" if known else self._left(ask.node)
            found = seat(self.ground, ask.facts, known or ask.node, taken - {left})
            return self._seated(ask, found.node.name, found.ground, found.new)

    def _left(self, node: str) -> str:
        """Give a node back where nobody may count on its agent any more, empty where it has one."""
        return node if node in self._keys and self._loop.ask(lambda state: is_left(state, node)).result() else ""

    def retire(self, node: str, who: str) -> None:
        """Strike a node out: its key opens nothing any more, and what runs on it recovers elsewhere."""
        with self._lock:
            self._strike_out((node,), who)

    def _strike_out(self, nodes: Collection[str], who: str) -> None:
        rows = [row for node in nodes for row in _void(node, who)]
        self._loop.send(NodesRetired, along=lambda _s, _r: rows, nodes=tuple(nodes)).result()
        for node in nodes:
            self._nodes.pop(self._keys.pop(node, ""), None)
        self._made -= set(nodes)
        self.ground = without(self.ground, nodes)

    def _seated(self, ask: JoinAsk, node: str, ground: Ground, new: bool) -> JoinAnswer:
        key = f"argosy-agent-{secrets.token_urlsafe(KEY_BYTES)}"
        now_us = wall_us()
        former = [agent for agent, its in self._agents.items() if its == node and agent != ask.agent]
        deed = "taken over" if former else "joined"
        data = msgspec.json.encode(_Kept(agent=ask.agent, facts=ask.facts, made=new or node in self._made))
        rows: list[Statement] = [
            ("INSERT OR REPLACE INTO agent VALUES (?, ?, ?, ?)", (node, digest(key), data, now_us)),
            audited(now_us, "join", deed, node, ask.facts.hostname),
        ]
        if new:
            added = (ground.nodes[node],)
            self._loop.send(FleetDescribed, along=lambda _s, _r: rows, pools=ground.pools(), nodes=added).result()
            self._made.add(node)
        else:
            self._loop.write(*rows).result()
        self._nodes.pop(self._keys.get(node, ""), None)
        self._keys[node] = digest(key)
        self._nodes[digest(key)] = node
        for agent in former:
            del self._agents[agent]
        self._agents[ask.agent] = node
        self.ground = ground
        return JoinAnswer(node=node, key=key, service=self._store.service)


def is_left(state: State, node: str) -> bool:
    """Say whether a node is down and its lease has run out, so that no rank of its former agent runs any more."""
    number = state.nodes.number.get(node)
    if number is None:
        return False
    return state.nodes.observed[number] == "down" and state.nodes.lease_us[number] <= wall_us()


def _others(state: State, names: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the nodes that the core knows and the fleet has no longer, and those that left for good."""
    nodes = state.nodes
    gone = tuple(name for number, name in enumerate(nodes.name) if nodes.retired[number])
    missing = tuple(name for number, name in enumerate(nodes.name) if name not in names and not nodes.retired[number])
    return missing, gone


def _void(node: str, who: str) -> list[Statement]:
    return [("UPDATE agent SET hash = '' WHERE node = ?", (node,)), audited(wall_us(), who, "retired", node)]
