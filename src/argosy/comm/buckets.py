"""One flat buffer that a group sums: all-reduce, or reduce-scatter now and all-gather after the update.

Knows lengths, not what they mean. All calls on one group must come in the same order on all its members.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.comm.sites import Running, SiteSum


class FlatBucket:
    """A flat buffer of equal segments, one a member when sharded, else one for all.

    segment_lengths: elements used in each segment; padded to the longest. group: None when nobody else holds it; a sum
    by phases where it crosses sites so, then never sharded.
    """

    def __init__(
        self,
        segment_lengths: tuple[int, ...],
        owned: int,
        group: dist.ProcessGroup | SiteSum | None,
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
        self._work: dist.Work | Running | None = None

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
        if isinstance(self.group, SiteSum):
            self._work = self.group.start(self.flat)
        elif self.sharded:
            self._work = dist.reduce_scatter_single(self._own, self.flat, group=self.group, async_op=True)
        else:
            self._work = dist.all_reduce(self.flat, group=self.group, async_op=True)

    def wait_reduced(self) -> None:
        """Wait until the sums are here."""
        self._wait()

    def start_gather(self, updated: Tensor) -> None:
        """Begin to spread every owner's updated segment (float32) over the group, in the background."""
        if self.gathered is None or isinstance(self.group, SiteSum):
            raise RuntimeError("only a sharded bucket gathers")
        self._work = dist.all_gather_single(self.gathered, updated, group=self.group, async_op=True)

    def wait_gathered(self) -> None:
        """Wait until every owner's segment is here."""
        self._wait()

    def _wait(self) -> None:
        if self._work is not None:
            self._work.wait()
            self._work = None
