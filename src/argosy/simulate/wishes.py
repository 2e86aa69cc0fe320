"""What a simulated life is about: a small fleet, its policy, and jobs that the dice wish for.

Data only; must not know the server or time.
"""

from argosy.contracts.fleet import Node
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.policy import SECOND_US, Breaker, Policy, Queue, Reclaim, Retries, Round
from argosy.contracts.request import Claim, Pool
from argosy.simulate.dice import Dice

POOLS = (("north", "h800", 12), ("south", "a910", 8))
LEASE_S = 30.0


def policy() -> Policy:
    """Four queues that own, borrow, lend and take turns, with everything else on."""
    queues = (
        Queue(name="a", guarantee={"h800": 48, "a910": 16}, notice_s=5.0),
        Queue(name="b", guarantee={"h800": 16}, weight=2.0, order="strict"),
        Queue(name="c", borrow={"*": 64}),
        Queue(name="d", order="fair", notice_s=2.0, round=Round(every_s=90.0, start_s=2.0, exchanges_at_most=3)),
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


def pools() -> tuple[Pool, ...]:
    """List the two pools."""
    return tuple(Pool(name=f"{site}/{kind}", kind=kind, site=site, chips_per_node=8) for site, kind, _ in POOLS)


def nodes() -> tuple[Node, ...]:
    """List the nodes, in racks of four and spines of eight."""
    return tuple(
        Node(name=f"{site}-{n + 1}", site=site, chip_class=f"{site}/{kind}", chips=8, rack=n // 4, spine=n // 8)
        for site, kind, count in POOLS
        for n in range(count)
    )


def wish(dice: Dice, name: str) -> tuple[Claim, tuple[Option, ...]]:
    """Draw one job: small or large, near or far, of one kind or mixed, with or without a time limit."""
    pool, near = dice.choice(pools()).name, dice.choice(("rack", "spine", "site", "any"))
    count = dice.choice((1, 1, 1, 2, 2, 3, 4))
    elastic = dice.permille(300)
    ladder = [Size(parts=(Part(chip_class=pool, nodes=count, topology=near),), tokens_per_second=2.0, efficiency=1.0)]
    if elastic and count > 1:
        half = Part(chip_class=pool, nodes=(count + 1) // 2, topology=near)
        ladder.append(Size(parts=(half,), tokens_per_second=1.0, efficiency=1.0))
    options = [Option(name="one", job="", ladder=tuple(ladder))]
    if dice.permille(200):
        parts = tuple(Part(chip_class=item.name, nodes=1) for item in pools())
        options.append(Option(name="mixed", job="", ladder=(Size(parts=parts, tokens_per_second=0.5, efficiency=0.5),)))
    claim = Claim(
        name=name,
        queue=dice.choice("aabbccd"),
        priority=dice.below(3),
        time_limit_us=dice.between(60, 900) * SECOND_US if dice.permille(600) else None,
        elastic=elastic,
        work_tokens=dice.between(50, 2000) if dice.permille(500) else None,
        preemptible=not dice.permille(100),
        user_retries=dice.below(2),
    )
    return claim, tuple(options)
