"""Gradients leave as soon as backward completes them, and come back summed over the replicas.

Hooks count micro-batches per parameter; when the last one of a unit is in, the unit's flat buckets start their sums in
the background while backward goes on with the layers below. The loss is a sum over the global batch's tokens divided by
their count, so a plain SUM is exact for any split of micro-batches. Knows nothing of schedules or optimizers.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.comm.buckets import FlatBucket, SiteBucket
from argosy.comm.groups import Groups, Seat, phased_units
from argosy.contracts.plan import Plan
from argosy.train.blocks import Block, Bucket, buckets_of
from argosy.train.decoder import unit_of
from argosy.train.stage import LocalStage
from argosy.train.tensor_parallel import has_partial_gradient, local_gradient, local_tensor

Units = tuple[int, ...]


def view_of(tensor: Tensor, local: Block, block: Block) -> Tensor:
    """View a block of a parameter inside the part of it that lies here (`local`)."""
    for dim, (offset, size) in enumerate(zip(block.offsets, block.sizes, strict=True)):
        tensor = tensor.narrow(dim, offset - local.offsets[dim], size)
    return tensor


class GradientExchange:
    """All of one rank's buckets: filled by hooks, summed in the background, and spread again after a sharded update."""

    def __init__(self, plan: Plan, seat: Seat, stage: LocalStage, groups: Groups, reduce_dtype: torch.dtype) -> None:
        self.parameters = stage.parameters
        self.local = stage.local
        self.whole_sizes = stage.whole_sizes
        self.buckets = buckets_of(plan, seat, stage.whole_sizes)
        device = next(iter(self.parameters.values())).device
        phased = phased_units(plan)
        self.flats = tuple(
            _flat(bucket, groups, phased.intersection(bucket.units), reduce_dtype, device) for bucket in self.buckets
        )
        self._tensor_group = groups.tensor
        self._order = tuple(dict.fromkeys(bucket.units for bucket in self.buckets))
        self._names: dict[Units, list[str]] = {units: [] for units in self._order}
        parcel = {unit: units for units in self._order for unit in units}
        for name, parameter in self.parameters.items():
            units = parcel[unit_of(name, plan.num_layers)]
            self._names[units].append(name)
            parameter.register_post_accumulate_grad_hook(self._hook(units))  # type: ignore[no-untyped-call]
        self._awaited: dict[Units, int] = {}
        self._launched = 0

    def begin(self, microbatches: int) -> None:
        """Start a step: forget old gradients and expect so many micro-batches."""
        for parameter in self.parameters.values():
            parameter.grad = None
        self._awaited = {units: microbatches * len(names) for units, names in self._names.items()}
        self._launched = 0

    def finish(self) -> None:
        """Send what backward left unsent and wait for every sum."""
        while self._launched < len(self._order):
            self._launch(self._order[self._launched])
        for flat in self.flats:
            flat.wait_reduced()

    def spread(self) -> None:
        """Hand the updated blocks to those who hold the same parameters: sharded buckets, then what TP leaves whole."""
        sharded = [(b, f) for b, f in zip(self.buckets, self.flats, strict=True) if f.sharded]
        for bucket, flat in sharded:
            own = torch.zeros_like(flat.reduced, dtype=torch.float32)
            self._pack(bucket.own, own, self._parameter)
            flat.start_gather(own)
        for bucket, flat in sharded:
            flat.wait_gathered()
            for index, segment in enumerate(bucket.segments):
                if index not in bucket.owned:
                    self._unpack(segment, flat.gathered_segment(index))
        self._share_whole()

    def _hook(self, units: Units) -> Callable[[Tensor], None]:
        def arrived(_: Tensor) -> None:
            self._awaited[units] -= 1
            while self._launched < len(self._order) and self._awaited[self._order[self._launched]] <= 0:
                self._launch(self._order[self._launched])

        return arrived

    def _launch(self, units: Units) -> None:
        self._launched += 1
        self._sum_partial(units)
        for bucket, flat in zip(self.buckets, self.flats, strict=True):
            if bucket.units != units:
                continue
            for index, segment in enumerate(bucket.segments):
                self._pack(segment, flat.segment(index), self._gradient)
            flat.start_reduce()
        for name in self._names[units]:
            self.parameters[name].grad = None

    def _sum_partial(self, units: Units) -> None:
        if self._tensor_group is None:
            return
        for name in self._names[units]:
            gradient = self.parameters[name].grad
            if has_partial_gradient(name) and gradient is not None:
                dist.all_reduce(gradient, group=self._tensor_group)

    def _gradient(self, name: str) -> Tensor | None:
        return local_gradient(self.parameters[name])

    def _parameter(self, name: str) -> Tensor:
        return local_tensor(self.parameters[name]).detach()

    def _pack(self, blocks: tuple[Block, ...], flat: Tensor, source: Callable[[str], Tensor | None]) -> None:
        start = 0
        for block in blocks:
            into = flat.narrow(0, start, block.numel).view(block.sizes)
            tensor = source(block.name)
            if tensor is None:
                into.zero_()
            else:
                into.copy_(view_of(tensor, self.local[block.name], block))
            start += block.numel

    def _unpack(self, blocks: tuple[Block, ...], flat: Tensor) -> None:
        start = 0
        for block in blocks:
            into = view_of(self._parameter(block.name), self.local[block.name], block)
            into.copy_(flat.narrow(0, start, block.numel).view(block.sizes))
            start += block.numel

    def _share_whole(self) -> None:
        if self._tensor_group is None:
            return
        whole = [p.detach() for name, p in self.parameters.items() if not hasattr(p, "to_local")]
        flat = torch.cat([p.flatten() for p in whole]) if whole else None
        if flat is None:
            return
        dist.broadcast(flat, group=self._tensor_group, group_src=0)
        start = 0
        for parameter in whole:
            parameter.copy_(flat.narrow(0, start, parameter.numel()).view_as(parameter))
            start += parameter.numel()


def _flat(
    bucket: Bucket, groups: Groups, phased: frozenset[int], dtype: torch.dtype, device: torch.device
) -> FlatBucket | SiteBucket:
    lengths = tuple(sum(block.numel for block in segment) for segment in bucket.segments)
    if phased and bucket.members in groups.phased:
        return SiteBucket(lengths, bucket.owned, groups.phased[bucket.members], dtype=dtype, device=device)
    group, padded = groups.exchange.get(bucket.members), tuple(max(1, length) for length in lengths)
    return FlatBucket(padded, bucket.owned[0], group, dtype=dtype, device=device)
