"""One flat buffer that a group sums: all-reduce, or reduce-scatter now and all-gather after the update.

A FlatBucket does so among all its members alike, a SiteBucket by phases inside sites and across them. Knows lengths,
not what they mean. All calls on one group must come in the same order on all its members.
"""

import itertools
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.comm.sites import Running, SiteSum, part_of


class FlatBucket:
    """A flat buffer of equal segments, one a member when sharded, else one for all.

    segment_lengths: elements used in each segment; padded to the longest. group: None when nobody else holds it.
    """

    def __init__(
        self,
        segment_lengths: tuple[int, ...],
        owned: int,
        group: dist.ProcessGroup | None,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.group = group
        self.owned = owned
        self.sharded = len(segment_lengths) > 1
        self.stride = max(segment_lengths)
        self.flat = torch.zeros(self.stride * len(segment_lengths), dtype=dtype, device=device)
        self.gathered = torch.zeros_like(self.flat, dtype=torch.float32) if self.sharded else None
        self._own = torch.zeros(self.stride, dtype=dtype, device=device) if self.sharded else self.flat
        self._work: dist.Work | None = None

    def segment(self, index: int) -> Tensor:
        """View one segment of what this rank puts in."""
        return self.flat.narrow(0, index * self.stride, self.stride)

    def gathered_segment(self, index: int) -> Tensor:
        """View one segment of what the all-gather brought (sharded buckets only)."""
        if self.gathered is None:
            raise RuntimeError("only a sharded bucket gathers")
        return self.gathered.narrow(0, index * self.stride, self.stride)

    @property
    def reduced(self) -> Tensor:
        """The owned segment's sums, once `wait_reduced` returned."""
        return self._own

    def start_reduce(self) -> None:
        """Begin to sum over the group, in the background."""
        if self.group is None:
            if self.sharded:
                raise RuntimeError("a sharded bucket needs a group")
            return
        if self.sharded:
            self._work = dist.reduce_scatter_single(self._own, self.flat, group=self.group, async_op=True)
        else:
            self._work = dist.all_reduce(self.flat, group=self.group, async_op=True)

    def wait_reduced(self) -> None:
        """Wait until the sums are here."""
        self._wait()

    def start_gather(self, updated: Tensor) -> None:
        """Begin to spread every owner's updated segment (float32) over the group, in the background."""
        if self.gathered is None:
            raise RuntimeError("only a sharded bucket gathers")
        self._work = dist.all_gather_single(self.gathered, updated, group=self.group, async_op=True)

    def wait_gathered(self) -> None:
        """Wait until every owner's segment is here."""
        self._wait()

    def _wait(self) -> None:
        if self._work is not None:
            self._work.wait()
            self._work = None


class SiteBucket:
    """A flat buffer of one segment a lane when sharded, else one for all, that is summed by phases.

    segment_lengths: elements of each segment; they lie one behind the other. owned: those that this rank updates,
    neighbours.
    """

    def __init__(
        self,
        segment_lengths: Sequence[int],
        owned: Sequence[int],
        sums: SiteSum,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.sums = sums
        self.sharded = len(segment_lengths) > 1
        starts = (0, *itertools.accumulate(segment_lengths))
        self._bounds = tuple(itertools.pairwise(starts))
        self._own = starts[owned[0]], starts[owned[-1] + 1]
        self.flat = torch.zeros(starts[-1], dtype=dtype, device=device)
        self.gathered = torch.zeros_like(self.flat, dtype=torch.float32) if self.sharded else None
        self._work: Running | None = None

    def segment(self, index: int) -> Tensor:
        """View one segment of what this rank puts in."""
        first, end = self._bounds[index]
        return self.flat[first:end]

    def gathered_segment(self, index: int) -> Tensor:
        """View one segment of what the gather inside the site brought (sharded buckets only)."""
        first, end = self._bounds[index]
        return self._gathered()[first:end]

    @property
    def reduced(self) -> Tensor:
        """The owned segments' sums, once `wait_reduced` returned."""
        first, end = self._own
        return self.flat[first:end]

    def start_reduce(self) -> None:
        """Begin to sum, in the background: each segment for its owners, or all for all."""
        if self.sharded:
            self._work = self.sums.start_reduce(self._parts(self.flat))
        else:
            bounds = [part_of(len(self.flat), lane) for lane in self.sums.lanes]
            self._work = self.sums.start_sum([self.flat[first:end] for first, end in bounds])

    def wait_reduced(self) -> None:
        """Wait until the sums are here."""
        self._wait()

    def start_gather(self, updated: Tensor) -> None:
        """Begin to spread the updated segments (float32) inside the site, in the background."""
        gathered = self._gathered()
        first, end = self._own
        gathered[first:end] = updated
        self._work = self.sums.start_spread(self._parts(gathered))

    def wait_gathered(self) -> None:
        """Wait until every owner's segments are here."""
        self._wait()

    def _parts(self, flat: Tensor) -> list[Tensor]:
        return [flat[first:end] for first, end in self._bounds]

    def _gathered(self) -> Tensor:
        if self.gathered is None:
            raise RuntimeError("only a sharded bucket gathers")
        return self.gathered

    def _wait(self) -> None:
        if self._work is not None:
            self._work.wait()
            self._work = None
