"""Which rectangle of which parameter each rank exchanges, updates and saves.

A parameter is cut twice: by TP into slices, then by rows among the ranks that hold the same slice, where the
optimizer's state is sharded (ZeRO-1); where gradients cross sites by phases, among those of each site. Every rank can
name every rectangle from the plan alone. Pure arithmetic on sizes: no tensor, no group.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.comm.groups import Seat, phased_units, slice_holders, tp_slices
from argosy.comm.sites import Lane, Ranks, by_site, lanes_of, part_of, sites_of
from argosy.contracts.plan import GRADIENT_BYTES, Plan
from argosy.train.decoder import unit_of
from argosy.train.tensor_parallel import split_dim

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle of one whole parameter: `offsets` and `sizes` in the parameter's own coordinates."""

    name: str
    offsets: Sizes
    sizes: Sizes

    @property
    def numel(self) -> int:
        """How many elements it has."""
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What the holders of one TP slice of some neighbouring units exchange together.

    units: in the order in which backward completes them. members: ascending ranks. segments: the blocks of each part
    that has owners of its own, where the optimizer is sharded, else one segment that all own. owned: indices of this
    rank's segments, neighbours. counted: whether this rank's blocks count in the gradient norm.
    """

    units: tuple[int, ...]
    members: Ranks
    segments: tuple[tuple[Block, ...], ...]
    owned: tuple[int, ...]
    counted: bool

    @property
    def own(self) -> tuple[Block, ...]:
        """The blocks that this rank updates."""
        return tuple(block for index in self.owned for block in self.segments[index])


def local_block(plan: Plan, seat: Seat, name: str, sizes: Sizes) -> Block:
    """Give the part of a parameter that lies on one rank under TP."""
    tp = plan.replicas[seat.replica].stages[seat.stage].tp
    return _cut(name, sizes, seat.tp_index, tp)


def buckets_of(plan: Plan, seat: Seat, parameters: Mapping[str, Sizes]) -> tuple[Bucket, ...]:
    """Give one rank's buckets, in the order in which backward completes them.

    parameters: name -> whole (unsplit) sizes of every parameter on the rank's stage, in the model's order.
    """
    stage = plan.replicas[seat.replica].stages[seat.stage]
    per_rank = tp_slices(plan) // stage.tp
    mine = range(seat.tp_index * per_rank, (seat.tp_index + 1) * per_rank)
    return tuple(
        _bucket(plan, seat, units, tp_slice, parameters)
        for units in parcels_of(plan, seat, parameters)
        for tp_slice in mine
    )


def parcels_of(plan: Plan, seat: Seat, parameters: Mapping[str, Sizes]) -> tuple[tuple[int, ...], ...]:
    """Group a stage's units, in the order in which backward completes them, into what is exchanged at a time.

    Small neighbours that the same ranks hold go together until they have plan.bucket_bytes of gradients: a collective
    of many ranks costs as much as it carries only when it carries enough. All holders group alike.
    """
    parcels: list[list[int]] = []
    room_bytes = 0
    holders: Ranks = ()
    for unit in completion_order(plan, seat):
        now = slice_holders(plan, unit, 0)
        # Units apart lie together on one rank of virtual stages, but on another of the holders they may not.
        apart = not parcels or abs(unit - parcels[-1][-1]) != 1
        if apart or now != holders or room_bytes <= 0:
            parcels.append([])
            room_bytes, holders = plan.bucket_bytes, now
        parcels[-1].append(unit)
        room_bytes -= sum(
            GRADIENT_BYTES * math.prod(sizes)
            for name, sizes in parameters.items()
            if unit_of(name, plan.num_layers) == unit
        )
    return tuple(tuple(parcel) for parcel in parcels)


def completion_order(plan: Plan, seat: Seat) -> tuple[int, ...]:
    """Order a rank's units as they are exchanged: as backward completes them, last layer first, the embedding last.

    Also a tied embedding's copy beside the head goes last, though it is ready first: its other holders are not, and one
    order on all ranks is what backends need whose collectives block one another (NCCL).
    """
    stages = plan.stages_at(plan.replicas[seat.replica], seat.stage)
    computed = [unit for stage in reversed(stages) for unit in reversed(plan.units(stage))]
    copies = [unit for stage in stages for unit in plan.held_units(stage) if unit not in computed]
    return (*computed, *copies)


def _bucket(plan: Plan, seat: Seat, units: tuple[int, ...], tp_slice: int, parameters: Mapping[str, Sizes]) -> Bucket:
    members = slice_holders(plan, units[0], tp_slice)
    slices = tp_slices(plan)
    whole = [
        _cut(name, sizes, tp_slice, slices)
        for name, sizes in parameters.items()
        # What TP leaves whole travels with slice 0 only; the TP group shares it after the update.
        if unit_of(name, plan.num_layers) in units and (split_dim(name) is not None or tp_slice == 0)
    ]
    if plan.zero_stage != 1 or len(members) == 1:
        return Bucket(
            units=units, members=members, segments=(tuple(whole),), owned=(0,), counted=seat.rank == members[0]
        )
    lanes = _lanes(plan, units, members)
    segments = tuple(tuple(_rows(block, lane) for block in whole) for lane in lanes)
    return Bucket(
        units=units,
        members=members,
        segments=tuple(tuple(block for block in segment if block.numel) for segment in segments),
        owned=tuple(index for index, lane in enumerate(lanes) if seat.rank in lane.owners),
        # By phases each site has an owner for everything; the first site's count.
        counted=any(seat.rank == lane.owners[0] for lane in lanes),
    )


def _lanes(plan: Plan, units: tuple[int, ...], members: Ranks) -> tuple[Lane, ...]:
    """Cut what the members of a bucket share among all of them, or by phases among those of each site."""
    phased = not phased_units(plan).isdisjoint(units)
    return lanes_of(by_site(sites_of(plan), members) if phased else (members,))


def _cut(name: str, sizes: Sizes, index: int, parts: int) -> Block:
    dim = split_dim(name)
    if dim is None:
        return Block(name=name, offsets=(0,) * len(sizes), sizes=sizes)
    length = sizes[dim] // parts
    return Block(
        name=name,
        offsets=tuple(index * length if d == dim else 0 for d in range(len(sizes))),
        sizes=tuple(length if d == dim else size for d, size in enumerate(sizes)),
    )


def _rows(block: Block, lane: Lane) -> Block:
    first, end = part_of(block.sizes[0], lane)
    return Block(
        name=block.name,
        offsets=(block.offsets[0] + first, *block.offsets[1:]),
        sizes=(end - first, *block.sizes[1:]),
    )
