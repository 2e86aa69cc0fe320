"""One simulated life of the core from one seed: jobs arrive, faults strike, all heals, and every rule is checked.

`live(seed)` gives what was found; the same seed gives the same log, byte for byte.
"""

from dataclasses import dataclass, replace
from functools import partial

from argosy.contracts.event import FleetDescribed, JobSubmitted, PolicyChanged
from argosy.contracts.option import Option
from argosy.simulate.agents import Agent
from argosy.simulate.chaos import Chaos
from argosy.simulate.rules import Rules
from argosy.simulate.server import Server
from argosy.simulate.wishes import LEASE_S, nodes, policy, pools, wish
from argosy.simulate.world import SECOND_US, Network, World

CALM_S = 7_200
TROUBLE_S_MAX = 36_000
ARRIVAL_GAP_S = (24, 44)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What came of one seed. broken: rules that were broken, in words; faults: by kind; log: its last bytes."""

    seed: int
    events: int
    faults: dict[str, int]
    broken: tuple[str, ...]
    ended: int
    state: bytes


def live(seed: int, events: int = 1_950) -> Life:
    """Run one life: trouble until so many events have passed, then calm until every job has ended."""
    world = World(seed)
    network = Network(world)
    wishes: dict[str, tuple[Option, ...]] = {}
    server = Server(world, network, seed, lambda job: wishes.get(job, ()))
    rules = Rules(server)
    server.start(1)
    server.send(PolicyChanged, policy=policy())
    server.send(FleetDescribed, pools=pools(), nodes=nodes())
    for node in nodes():
        server.agents[node.name] = Agent(world, network, node.name, server.hear, round(LEASE_S * SECOND_US))
    chaos = Chaos(world, network, server)
    gap_s = world.dice.between(*ARRIVAL_GAP_S)
    _submit_more(world, server, wishes, chaos, gap_s)
    world.run(TROUBLE_S_MAX * SECOND_US, lambda: rules.is_broken() or server.events >= events)
    chaos.on = False
    _heal(world, network, server, chaos)
    world.run(world.now_us + CALM_S * SECOND_US, lambda: rules.is_broken() or rules.is_over())
    rules.at_the_end()
    ended = sum(job.state == "ended" for job in server.state.jobs.values())
    return Life(
        seed=seed,
        events=server.events,
        faults=dict(sorted(world.faults.items())),
        broken=tuple(rules.broken),
        ended=ended,
        state=server.kept.snapshot + b"".join(server.kept.lines),
    )


def _submit_more(world: World, server: Server, wishes: dict[str, tuple[Option, ...]], chaos: Chaos, gap_s: int) -> None:
    """Hand in one job after another while there is trouble, with such a gap on average."""
    if chaos.on:
        _submit(world, server, wishes)
        world.after(world.dice.below(2 * gap_s * SECOND_US), partial(_submit_more, world, server, wishes, chaos, gap_s))


def _submit(world: World, server: Server, wishes: dict[str, tuple[Option, ...]]) -> None:
    """Hand in one job; while the server is away, later."""
    claim, options = wish(world.dice, f"job at {world.now_us}")
    if not server.send(JobSubmitted, claim=claim, options=options if world.dice.permille(500) else ()):
        world.after(5 * SECOND_US, lambda: _submit(world, server, wishes))
        return
    wishes[f"job-{server.state.seq}"] = options


def _heal(world: World, network: Network, server: Server, chaos: Chaos) -> None:
    """End all faults: a calm fleet, and nobody owns so much that others can never run."""
    network.unruly, server.disk_full = False, False

    def calm() -> None:
        network.cut.clear()
        for agent in server.agents.values():
            agent.slow = False
        chaos.checks_pass()
        for name in list(server.agents):
            chaos.reopen(name)
        if not server.send(PolicyChanged, policy=replace(policy(), maintenance=(), spares={})):
            world.after(10 * SECOND_US, calm)

    world.after(130 * SECOND_US, calm)
