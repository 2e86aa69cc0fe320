"""Sums across sites by phases: inside every site, then across, then spread inside again.

Over a flat ring's edges across sites goes nearly twice the buffer for each site; by phases only the sums of the sites
cross. The buffer is cut into lanes, as many as the largest site has members. In each site a lane has one member, which
sums it up inside, sums it with its fellows of the other sites, and spreads it. Sites may differ in size: in a small one
a member has several lanes. Tested over gloo. Must not know what is summed.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch.distributed as dist
from torch import Tensor

from argosy.contracts.plan import Plan

Ranks = tuple[int, ...]


def by_site(plan: Plan, ranks: Sequence[int]) -> tuple[Ranks, ...]:
    """Group ranks by the site that their chips stand in, sites in the order of their names."""
    classes = {
        rank: stage.chip_class for replica in plan.replicas for stage in plan.places(replica) for rank in stage.ranks
    }
    sites: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        sites.setdefault(classes[rank].split("/")[0], []).append(rank)
    return tuple(tuple(sites[name]) for name in sorted(sites))


def lanes_of(sites: Sequence[Ranks]) -> tuple[Ranks, ...]:
    """Choose for every lane its member in each site, in the order of the sites.

    >>> lanes_of([(0, 1, 2), (3, 4)])
    ((0, 3), (1, 4), (2, 3))
    """
    return tuple(tuple(site[lane % len(site)] for site in sites) for lane in range(max(map(len, sites))))


class SiteSum:
    """One rank's part in the sums of a set of ranks that stand in several sites.

    inside: the group of its site's members, None where it is alone there. across: the group of each of its lanes. Sums
    run one after the other in a thread of their own; all members must start them in the same order.
    """

    def __init__(
        self,
        rank: int,
        sites: Sequence[Ranks],
        inside: dist.ProcessGroup | None,
        across: Mapping[Ranks, dist.ProcessGroup],
    ) -> None:
        site = next(index for index, members in enumerate(sites) if rank in members)
        self._lanes = lanes_of(sites)
        self._owners = [lane[site] for lane in self._lanes]
        self._rank = rank
        self._inside = inside
        self._across = across
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="across-sites")

    def start(self, flat: Tensor) -> "Running":
        """Begin to sum a flat buffer in place."""
        return Running(self._thread.submit(self._sum, flat))

    def _sum(self, flat: Tensor) -> None:
        parts = flat.tensor_split(len(self._lanes))
        work = [(part, owner) for part, owner in zip(parts, self._owners, strict=True) if part.numel()]
        self._each(work, lambda part, owner: dist.reduce(part, dst=owner, group=self._inside, async_op=True))
        crossing = [
            dist.all_reduce(part, group=self._across[lane], async_op=True)
            for part, lane in zip(parts, self._lanes, strict=True)
            if self._rank in lane and part.numel()
        ]
        _wait(crossing)
        self._each(work, lambda part, owner: dist.broadcast(part, src=owner, group=self._inside, async_op=True))

    def _each(self, work: Sequence[tuple[Tensor, int]], act: Callable[[Tensor, int], dist.Work | None]) -> None:
        if self._inside is not None:
            _wait([act(part, owner) for part, owner in work])


class Running:
    """A sum that was started."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def wait(self) -> None:
        """Wait until it is done; raises what went wrong in it."""
        self._future.result()


def _wait(works: Sequence[dist.Work | None]) -> None:
    for work in works:
        if work is not None:
            work.wait()
