"""Sums across sites by phases: inside every site, then across, then spread inside again.

Over a flat ring's edges across sites goes nearly twice the buffer for each site; by phases only the sums of the sites
cross. What is summed is cut into lanes. In each site a lane has one owner, which sums it up inside, sums it with its
fellows of the other sites, and spreads it: at once, or after it updated what it owns (ZeRO-1), so that nothing crosses
after an update. Sites may differ in size; each shares its work evenly. Tested over gloo. Must not know what is summed.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import torch.distributed as dist
from torch import Tensor

from argosy.contracts.plan import Plan

Ranks = tuple[int, ...]
Sites = tuple[Ranks, ...]


def sites_of(plan: Plan) -> dict[int, str]:
    """Tell in which site each rank's chip stands."""
    return {
        rank: stage.chip_class.split("/")[0]
        for replica in plan.replicas
        for stage in plan.places(replica)
        for rank in stage.ranks
    }


def by_site(sites: Mapping[int, str], ranks: Sequence[int]) -> Sites:
    """Group ranks by their site, sites in the order of their names."""
    members: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        members.setdefault(sites[rank], []).append(rank)
    return tuple(tuple(members[name]) for name in sorted(members))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of what is summed, from begin to end of the whole (0 to 1), and its owner in each site."""

    begin: Fraction
    end: Fraction
    owners: Ranks


def lanes_of(sites: Sequence[Ranks]) -> tuple[Lane, ...]:
    """Cut a whole so that in each site every member owns an equal share, one or more neighbouring lanes.

    One site has a lane a member; several have at most as many as all members together.

    >>> [(str(lane.begin), lane.owners) for lane in lanes_of([(0, 1, 2), (3, 4)])]
    [('0', (0, 3)), ('1/3', (1, 3)), ('1/2', (1, 4)), ('2/3', (2, 4))]
    """
    cuts = sorted({Fraction(index, len(site)) for site in sites for index in range(len(site) + 1)})
    return tuple(
        Lane(begin=begin, end=end, owners=tuple(site[int(begin * len(site))] for site in sites))
        for begin, end in pairwise(cuts)
    )


def part_of(length: int, lane: Lane) -> tuple[int, int]:
    """Give first and end (not included) of a lane's part of so many rows or elements."""
    return int(length * lane.begin), int(length * lane.end)


class SiteSum:
    """One rank's part in the sums of a set of ranks that stand in several sites.

    inside: the group of its site's members, None where it is alone there. across: the group of each of its lanes, by
    owners. Everything runs one after the other in a thread of its own; all members must start it in the same order.
    """

    def __init__(
        self,
        rank: int,
        sites: Sequence[Ranks],
        inside: dist.ProcessGroup | None,
        across: Mapping[Ranks, dist.ProcessGroup],
    ) -> None:
        self.lanes = lanes_of(sites)
        site = next(index for index, members in enumerate(sites) if rank in members)
        self._owners = [lane.owners[site] for lane in self.lanes]
        self._rank = rank
        self._inside = inside
        self._across = across
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="across-sites")

    def start_sum(self, parts: Sequence[Tensor]) -> "Running":
        """Begin to sum the parts of all lanes in place, for all members."""
        return self._start(self._reduce, self._spread, parts=parts)

    def start_reduce(self, parts: Sequence[Tensor]) -> "Running":
        """Begin to sum each lane for its owners alone; what others keep of it is undefined."""
        return self._start(self._reduce, parts=parts)

    def start_spread(self, parts: Sequence[Tensor]) -> "Running":
        """Begin to hand each lane from its owner to all members in the same site."""
        return self._start(self._spread, parts=parts)

    def _start(self, *acts: Callable[[Sequence[Tensor]], None], parts: Sequence[Tensor]) -> "Running":
        def run() -> None:
            for act in acts:
                act(parts)

        return Running(self._thread.submit(run))

    def _reduce(self, parts: Sequence[Tensor]) -> None:
        self._inside_each(parts, lambda part, owner: dist.reduce(part, dst=owner, group=self._inside, async_op=True))
        _wait(
            [
                dist.all_reduce(part, group=self._across[lane.owners], async_op=True)
                for part, lane in zip(parts, self.lanes, strict=True)
                if self._rank in lane.owners and part.numel()
            ]
        )

    def _spread(self, parts: Sequence[Tensor]) -> None:
        self._inside_each(parts, lambda part, owner: dist.broadcast(part, src=owner, group=self._inside, async_op=True))

    def _inside_each(self, parts: Sequence[Tensor], act: Callable[[Tensor, int], dist.Work | None]) -> None:
        if self._inside is not None:
            _wait([act(part, owner) for part, owner in zip(parts, self._owners, strict=True) if part.numel()])


class Running:
    """Work that was started."""

    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def wait(self) -> None:
        """Wait until it is done; raises what went wrong in it."""
        self._future.result()


def _wait(works: Sequence[dist.Work | None]) -> None:
    for work in works:
        if work is not None:
            work.wait()
