"""Faults by the dice: machines die, sites are cut off, the server crashes, disks fill, people change their minds.

Each fault heals by itself. Must not know what the core makes of them.
"""

from collections.abc import Callable
from dataclasses import replace

from argosy.contracts.event import (
    FleetDescribed,
    IncidentFound,
    IntentChanged,
    NodesRetired,
    PolicyChanged,
    StopAsked,
    TrustChanged,
)
from argosy.contracts.fleet import Node
from argosy.contracts.incident import Culprit, Incident
from argosy.contracts.policy import TIMED_ORDERS, Window
from argosy.simulate.agents import Agent
from argosy.simulate.server import Server
from argosy.simulate.wishes import LEASE_S, nodes, pools
from argosy.simulate.world import SECOND_US, Network, World

GAP_S = 8
TURNS = ("fifo", "shortest_remaining", "fair", "makespan")
"""Orders that the queue that takes turns changes between."""
LEASES_S = (20.0, LEASE_S, 90.0)
REMEDIES = ("restart_in_place", "cordon_replace", "retry", "cordon_replace", "fix_user_code")


class Chaos:
    """Injects one fault after another until it is told to end."""

    def __init__(self, world: World, network: Network, server: Server) -> None:
        self.world, self.network, self.server = world, network, server
        self.on = True
        self._cuts = self._swaps = 0
        kinds: list[Callable[[], None]] = [
            self.node_dies,
            self.node_dies,
            self.site_is_cut,
            self.server_crashes,
            self.disk_fills,
            self.node_slows,
            self.network_goes_mad,
            self.ranks_crash,
            self.ranks_crash,
            self.incident,
            self.people_drain,
            self.policy_changes,
            self.node_is_swapped,
            self.user_stops,
            self.checks_pass,
            self.checks_pass,
        ]
        self.kinds = kinds
        world.after(5 * SECOND_US, self.strike)

    def strike(self) -> None:
        """Inject one fault and come back."""
        if self.on:
            self.world.dice.choice(self.kinds)()
            self.world.after(self.world.dice.between(1, 2 * GAP_S) * SECOND_US, self.strike)

    def _node(self) -> str:
        return self.world.dice.choice(sorted(self.server.agents))

    def node_dies(self) -> None:
        """Have one to three machines lose power for a while."""
        for _ in range(self.world.dice.between(1, 3)):
            self.world.fault("node died")
            self.server.agents[self._node()].die(self.world.dice.between(1, 120) * SECOND_US)

    def site_is_cut(self) -> None:
        """Cut a site off from the server for a while."""
        site = self._node().partition("-")[0]
        names = {name for name in self.server.agents if name.startswith(f"{site}-")}
        self.world.fault("site cut off")
        self.network.cut |= names
        self._cuts += 1
        cut = self._cuts

        def heal() -> None:
            if cut == self._cuts:
                self.network.cut.clear()

        self.world.after(self.world.dice.between(5, 90) * SECOND_US, heal)

    def server_crashes(self) -> None:
        """Crash the server; another one leads after a while, from the log."""
        server = self.server
        if not server.up:
            return
        self.world.fault("server crashed")
        server.crash()
        term = server.term + 1
        self.world.after(self.world.dice.between(1, 40) * SECOND_US, lambda: server.start(term))

    def disk_fills(self) -> None:
        """Have the log's disk be full for a while."""
        self.world.fault("disk full")
        self.server.disk_full = True
        self.world.after(self.world.dice.between(1, 10) * SECOND_US, self._disk_heals)

    def _disk_heals(self) -> None:
        self.server.disk_full = False

    def node_slows(self) -> None:
        """Have a machine do everything slowly for a while."""
        agent = self.server.agents[self._node()]
        self.world.fault("node slow")
        agent.slow = True

        def heal() -> None:
            agent.slow = False

        self.world.after(self.world.dice.between(20, 120) * SECOND_US, heal)

    def network_goes_mad(self) -> None:
        """Have messages be lost, doubled and held up for a while."""
        self.world.fault("network unruly")
        self.network.unruly = True

        def heal() -> None:
            self.network.unruly = False

        self.world.after(self.world.dice.between(5, 60) * SECOND_US, heal)

    def ranks_crash(self) -> None:
        """Have the ranks of a node end by themselves, by the user's fault or the machine's."""
        agent = self.server.agents[self._node()]
        for attempt, generation in list(agent.memory.running.items()):
            self.world.fault("ranks crashed")
            agent.exit(attempt, generation, "user" if self.world.dice.permille(150) else "infrastructure")

    def incident(self) -> None:
        """Have health judge a fault, twice with the same evidence."""
        running = sorted(a.id for a in self.server.state.attempts.values())
        if not running:
            return
        attempt = self.server.state.attempts[self.world.dice.choice(running)]
        remedy = self.world.dice.choice(REMEDIES)
        found = Incident(
            fault_class="gpu.ecc", culprit=Culprit(kind="host"), confidence="high", remedy=remedy, advice="see"
        )
        culprits = self.server.state.nodes.names(attempt.all_nodes()[:1])
        self.world.fault("incident")
        for _ in range(2):
            self.server.send(
                IncidentFound,
                attempt=attempt.id,
                generation=attempt.generation,
                evidence=f"seen at {self.world.now_us}",
                incident=found,
                nodes=culprits,
            )

    def people_drain(self) -> None:
        """Cordon or drain a node, with or without a deadline, and open it again later."""
        name = self._node()
        intent = self.world.dice.choice(("cordoned", "draining"))
        deadline_us = self.world.now_us + self.world.dice.between(0, 30) * SECOND_US
        self.world.fault("node " + intent)
        self.server.send(IntentChanged, nodes=(name,), intent=intent, deadline_us=deadline_us)
        self.world.after(60 * SECOND_US, lambda: self.reopen(name))

    def reopen(self, name: str) -> None:
        """Open a node again; try later while the server is away."""
        if not self.server.send(IntentChanged, nodes=(name,), intent="open"):
            self.world.after(5 * SECOND_US, lambda: self.reopen(name))

    def policy_changes(self) -> None:
        """Change spares, maintenance, leases, guarantees, and the order of queues that take turns."""
        dice, policy = self.world.dice, self.server.state.policy
        start_us = self.world.now_us + dice.between(0, 60) * SECOND_US
        window = Window(site="north", rack=dice.below(3), from_us=start_us, to_us=start_us + 60 * SECOND_US)
        queues = tuple(
            replace(
                queue,
                guarantee={kind: 8 * dice.below(5) for kind in ("h800", "a910")},
                weight=1.0 + dice.below(3),
                order=dice.choice(TURNS) if queue.order in TIMED_ORDERS else queue.order,
            )
            for queue in policy.queues
        )
        self.world.fault("policy changed")
        spares, lease_s = {"north": dice.below(2)}, dice.choice(LEASES_S)
        changed = replace(policy, queues=queues, maintenance=(window,), spares=spares, lease_s=lease_s)
        self.server.send(PolicyChanged, policy=changed)

    def node_is_swapped(self) -> None:
        """Take a node out for good, and put another in its place."""
        server, name = self.server, self._node()
        number = server.state.nodes.number.get(name)
        if number is None or server.state.nodes.retired[number] or not server.send(NodesRetired, nodes=(name,)):
            return
        self.world.fault("node swapped")
        self._swaps += 1
        old = next(node for node in nodes() if name.startswith(f"{node.name}~") or name == node.name)
        self._install(replace(old, name=f"{old.name}~{self._swaps}"))

    def _install(self, node: Node) -> None:
        """Describe a new node and start its agent; try later while the log can't be written."""
        if self.server.send(FleetDescribed, pools=pools(), nodes=(node,)):
            lease_us = round(LEASE_S * SECOND_US)
            self.server.agents[node.name] = Agent(self.world, self.network, node.name, self.server.hear, lease_us)
        else:
            self.world.after(5 * SECOND_US, lambda: self._install(node))

    def user_stops(self) -> None:
        """Have a user stop a job."""
        alive = sorted(job.id for job in self.server.state.jobs.values() if job.state != "ended")
        if alive:
            self.world.fault("job stopped")
            self.server.send(StopAsked, job=self.world.dice.choice(alive))

    def checks_pass(self) -> None:
        """Have nodes in quarantine pass their checks."""
        table = self.server.state.nodes
        for number, trust in enumerate(table.trust):
            if trust == "quarantined" and not table.retired[number]:
                self.server.send(TrustChanged, node=table.name[number], trust="ok")
