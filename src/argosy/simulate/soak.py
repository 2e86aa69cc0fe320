"""One simulated life of the core from one seed: jobs arrive, faults strike, all heals, and every rule is checked.

`live(seed)` gives what was found; the same seed gives the same log, byte for byte.
"""

from dataclasses import dataclass, replace

from argosy.contracts.event import FleetDescribed, JobSubmitted, PolicyChanged
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import Breaker, Policy, Queue, Reclaim, Retries
from argosy.contracts.request import Claim, Pool
from argosy.simulate.agents import Agent
from argosy.simulate.chaos import Chaos
from argosy.simulate.rules import Rules
from argosy.simulate.server import Server
from argosy.simulate.world import SECOND_US, Network, World

POOLS = (("north", "h800", 12), ("south", "a910", 8))
LEASE_S = 30.0
CALM_S = 7_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What came of one seed. broken: rules that were broken, in words; faults: by kind; log: its last bytes."""

    seed: int
    events: int
    faults: dict[str, int]
    broken: tuple[str, ...]
    ended: int
    state: bytes


def policy() -> Policy:
    """Three queues that own, borrow and lend, with everything else on."""
    queues = (
        Queue(name="a", guarantee={"h800": 48, "a910": 16}, notice_s=5.0),
        Queue(name="b", guarantee={"h800": 16}, weight=2.0, order="strict"),
        Queue(name="c", borrow={"*": 64}),
    )
    return Policy(
        queues=queues,
        spares={"north": 1},
        breaker=Breaker(share=0.2, window_s=120.0),
        retries=Retries(infrastructure=50, backoff_s=1.0, backoff_at_most_s=10.0),
        reclaim=Reclaim(cooldown_s=60.0, pin_s=120.0),
        lease_s=LEASE_S,
        prepare_s=240.0,
        hold_after_s=120.0,
    )


def live(seed: int, jobs: int = 80, hours: float = 0.6) -> Life:
    """Run one life: a troubled time, then calm until every job has ended."""
    world = World(seed)
    network = Network(world)
    wishes: dict[str, tuple[Option, ...]] = {}
    server = Server(world, network, seed, lambda job: wishes.get(job, ()))
    rules = Rules(server)
    server.start(1)
    server.send(PolicyChanged, policy=policy())
    server.send(FleetDescribed, pools=_pools(), nodes=_nodes())
    for node in _nodes():
        server.agents[node.name] = Agent(world, network, node.name, server.hear, round(LEASE_S * SECOND_US))
    troubled_us = round(hours * 3600) * SECOND_US
    for _ in range(jobs):
        world.at(world.dice.below(troubled_us), lambda: _submit(world, server, wishes))
    chaos = Chaos(world, network, server)
    world.run(troubled_us, rules.is_broken)
    chaos.on = False
    _heal(world, network, server)
    world.run(troubled_us + CALM_S * SECOND_US, lambda: rules.is_broken() or rules.is_over())
    rules.at_the_end()
    ended = sum(job.state == "ended" for job in server.state.jobs.values())
    return Life(
        seed=seed,
        events=server.events,
        faults=dict(sorted(world.faults.items())),
        broken=tuple(rules.broken),
        ended=ended,
        state=server.snapshot + b"".join(server.lines),
    )


def _pools() -> tuple[Pool, ...]:
    return tuple(Pool(name=f"{site}/{kind}", kind=kind, site=site, chips_per_node=8) for site, kind, _ in POOLS)


def _nodes() -> tuple[Node, ...]:
    return tuple(
        Node(name=f"{site}-{n + 1}", site=site, chip_class=f"{site}/{kind}", chips=8, rack=n // 4, spine=n // 8)
        for site, kind, count in POOLS
        for n in range(count)
    )


def _submit(world: World, server: Server, wishes: dict[str, tuple[Option, ...]]) -> None:
    """Hand in one job; while the server is away, later."""
    dice = world.dice
    pool, near = dice.choice(_pools()).name, dice.choice(("rack", "spine", "site", "any"))
    count = dice.choice((1, 1, 1, 2, 2, 3, 4))
    elastic = dice.permille(300)
    ladder = [Size(parts=(Part(chip_class=pool, nodes=count, topology=near),), tokens_per_second=2.0, efficiency=1.0)]
    if elastic and count > 1:
        half = Part(chip_class=pool, nodes=(count + 1) // 2, topology=near)
        ladder.append(Size(parts=(half,), tokens_per_second=1.0, efficiency=1.0))
    options = [Option(name="one", job="", ladder=tuple(ladder))]
    if dice.permille(200):
        parts = tuple(Part(chip_class=item.name, nodes=1) for item in _pools())
        options.append(Option(name="mixed", job="", ladder=(Size(parts=parts, tokens_per_second=0.5, efficiency=0.5),)))
    claim = Claim(
        name=f"job at {world.now_us}",
        queue=dice.choice("abc"),
        priority=dice.below(3),
        time_limit_us=dice.between(60, 900) * SECOND_US if dice.permille(600) else None,
        elastic=elastic,
        user_retries=dice.below(2),
    )
    at_once = tuple(options) if dice.permille(500) else ()
    if not server.send(JobSubmitted, claim=claim, options=at_once):
        world.after(5 * SECOND_US, lambda: _submit(world, server, wishes))
        return
    wishes[f"job-{server.state.seq}"] = tuple(options)


def _heal(world: World, network: Network, server: Server) -> None:
    """End all faults: a calm fleet, and nobody owns so much that others can never run."""
    network.unruly, server.disk_full = False, False

    def calm() -> None:
        network.cut.clear()
        for agent in server.agents.values():
            agent.slow = False
        nodes = server.state.nodes
        chaos = Chaos.__new__(Chaos)
        chaos.world, chaos.network, chaos.server = world, network, server
        chaos.checks_pass()
        for name in list(nodes.number):
            chaos.open(name)
        if not server.send(PolicyChanged, policy=replace(policy(), maintenance=(), spares={})):
            world.after(10 * SECOND_US, calm)

    world.after(130 * SECOND_US, calm)
