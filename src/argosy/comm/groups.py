"""The process groups of one generation, made from a plan.

Every rank makes only its own groups, all in one sorted order, each with its own time-out: world-wide creation does not
scale, and torch does not hand the time-out down. Knows nothing of what is sent.
"""

import math
from dataclasses import dataclass, field
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from argosy.comm.sites import Ranks, Sites, SiteSum, by_site, lanes_of, sites_of
from argosy.comm.torch_private import new_named_group
from argosy.contracts.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where one rank sits in its plan. stage: its place in the pipeline, which is the first of its virtual stages."""

    rank: int
    replica: int
    stage: int
    tp_index: int


def seat_of(plan: Plan, rank: int) -> Seat:
    """Find a rank's replica, stage and TP index in a bound plan."""
    for r, replica in enumerate(plan.replicas):
        for s, stage in enumerate(replica.stages):
            if rank in stage.ranks:
                return Seat(rank=rank, replica=r, stage=s, tp_index=stage.ranks.index(rank))
    raise ValueError(f"rank {rank} is in no stage of the plan; is the plan bound?")


def tp_slices(plan: Plan) -> int:
    """Into how many slices TP cuts a layer so that all TP ranks hold whole ones: the degrees' least common multiple."""
    return math.lcm(*(stage.tp for replica in plan.replicas for stage in replica.stages))


def slice_holders(plan: Plan, unit: int, tp_slice: int) -> Ranks:
    """All ranks that hold one TP slice of a unit, ascending."""
    slices = tp_slices(plan)
    holders = (
        stage.ranks[tp_slice * stage.tp // slices]
        for replica in plan.replicas
        for stage in replica.stages
        if unit in plan.held_units(stage)
    )
    return tuple(sorted(holders))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """One rank's own process groups; a group of one is not made where nothing would be sent.

    exchange: by all that hold the same. phased: those among them whose sums cross sites by phases.
    """

    pipeline: dist.ProcessGroup
    tensor: dist.ProcessGroup | None
    exchange: dict[Ranks, dist.ProcessGroup]
    phased: dict[Ranks, SiteSum] = field(default_factory=dict)


def make_groups(plan: Plan, seat: Seat, timeout: timedelta) -> Groups:
    """Make the groups a rank belongs to; every member must call this, in any order of ranks."""
    replica = plan.replicas[seat.replica]
    stage = replica.stages[seat.stage]
    pipeline = tuple(sorted(each.ranks[seat.tp_index] for each in plan.places(replica)))
    tensor = tuple(sorted(stage.ranks))
    per_rank = tp_slices(plan) // stage.tp
    mine = range(seat.tp_index * per_rank, (seat.tp_index + 1) * per_rank)
    units = [unit for each in plan.stages_at(replica, seat.stage) for unit in plan.held_units(each)]
    holders = {(unit, t): slice_holders(plan, unit, t) for unit in units for t in mine}
    exchange = {ranks for ranks in holders.values() if len(ranks) > 1}
    crossing, where = phased_units(plan), sites_of(plan)
    phased = {ranks: by_site(where, ranks) for (unit, _), ranks in holders.items() if unit in crossing}
    phased = {ranks: sites for ranks, sites in phased.items() if len(sites) > 1}
    wanted = {("exchange", ranks) for ranks in exchange} | {("pipeline", pipeline)}
    wanted |= {("tensor", tensor)} if len(tensor) > 1 else set()
    for ranks, sites in phased.items():
        parts = (*sites, *(lane.owners for lane in lanes_of(sites)))
        wanted |= {(phase(ranks), part) for part in parts if seat.rank in part and len(part) > 1}
    # Two members of several common groups must make them in the same order, or each waits for the other.
    made = {
        (kind, ranks): new_named_group(ranks, f"{kind}/{','.join(map(str, ranks))}", timeout)
        for kind, ranks in sorted(wanted)
    }
    return Groups(
        pipeline=made["pipeline", pipeline],
        tensor=made.get(("tensor", tensor)),
        exchange={ranks: group for (kind, ranks), group in made.items() if kind == "exchange"},
        phased={ranks: site_sum(seat.rank, ranks, sites, made) for ranks, sites in phased.items()},
    )


def phased_units(plan: Plan) -> frozenset[int]:
    """Name the units whose gradients cross sites by phases, if their holders stand in several.

    With a sharded optimizer that is also where nothing is gathered over the exchange's own wire: by phases with one
    holder a site, each of which updates all.
    """
    whole = plan.zero_stage == 1
    return frozenset(e.unit for e in plan.exchanges if e.phased or (whole and e.gather_bytes <= 0))


def phase(ranks: Ranks) -> str:
    """Name the groups that a set of ranks needs for its phases; no two sets share one, so none waits for another."""
    return f"phase of {','.join(map(str, ranks))}"


def site_sum(rank: int, ranks: Ranks, sites: Sites, made: dict[tuple[str, Ranks], dist.ProcessGroup]) -> SiteSum:
    """Give a rank's part in the sums of a set of ranks."""
    own = next(site for site in sites if rank in site)
    across = {lane.owners: made[phase(ranks), lane.owners] for lane in lanes_of(sites) if rank in lane.owners}
    return SiteSum(rank, sites, made.get((phase(ranks), own)), across)


def join_world(
    *, host: str, port: int, prefix: str, rank: int, world_size: int, backend: str, timeout: timedelta
) -> None:
    """Join the attempt's world through its store; the generation's prefix keeps old keys apart.

    Raises what torch raises when the store can't be reached or peers don't come within `timeout`.
    """
    store = dist.TCPStore(host, port, is_master=False, timeout=timeout)  # type: ignore[attr-defined]
    dist.init_process_group(
        backend, store=PrefixStore(prefix, store), rank=rank, world_size=world_size, timeout=timeout
    )
