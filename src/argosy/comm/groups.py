"""The process groups of one generation, made from a plan.

Every rank makes only its own groups, all in one sorted order, each with its own time-out: world-wide creation does not
scale, and torch does not hand the time-out down. Knows nothing of what is sent.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from argosy.comm.torch_private import new_named_group
from argosy.contracts.plan import Plan

Ranks = tuple[int, ...]


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
    """One rank's own process groups; a group of one is not made where nothing would be sent."""

    pipeline: dist.ProcessGroup
    tensor: dist.ProcessGroup | None
    exchange: dict[Ranks, dist.ProcessGroup]


def make_groups(plan: Plan, seat: Seat, timeout: timedelta) -> Groups:
    """Make the groups a rank belongs to; every member must call this, in any order of ranks."""
    replica = plan.replicas[seat.replica]
    stage = replica.stages[seat.stage]
    pipeline = tuple(sorted(each.ranks[seat.tp_index] for each in plan.places(replica)))
    tensor = tuple(sorted(stage.ranks))
    per_rank = tp_slices(plan) // stage.tp
    mine = range(seat.tp_index * per_rank, (seat.tp_index + 1) * per_rank)
    units = [unit for each in plan.stages_at(replica, seat.stage) for unit in plan.held_units(each)]
    exchange = {slice_holders(plan, unit, t) for unit in units for t in mine}
    wanted = [("exchange", ranks) for ranks in exchange if len(ranks) > 1]
    wanted += [("pipeline", pipeline)] + ([("tensor", tensor)] if len(tensor) > 1 else [])
    # Two members of several common groups must make them in the same order, or each waits for the other.
    made = {
        (kind, ranks): new_named_group(ranks, f"{kind}/{','.join(map(str, ranks))}", timeout)
        for kind, ranks in sorted(wanted)
    }
    return Groups(
        pipeline=made["pipeline", pipeline],
        tensor=made.get(("tensor", tensor)),
        exchange={ranks: group for (kind, ranks), group in made.items() if kind == "exchange"},
    )


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
