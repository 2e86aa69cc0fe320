"""Sums across sites by phases: who does what, and that the sum is the sum."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.comm.buckets import SiteBucket
from argosy.comm.groups import make_groups, seat_of
from argosy.comm.sites import Ranks, by_site, lanes_of, part_of, sites_of
from argosy.contracts.plan import Exchange, Plan
from support.training import plan_of, replica
from support.worlds import PEER_TIMEOUT, in_world

LAWS = settings(derandomize=True, deadline=None, max_examples=50)
LENGTH = 11
SIZES = st.lists(st.integers(1, 5), min_size=2, max_size=4)


def sites_of_sizes(sizes: list[int]) -> list[Ranks]:
    """Build sites of so many members."""
    ranks = iter(range(sum(sizes)))
    return [tuple(next(ranks) for _ in range(size)) for size in sizes]


def spread(*sites: str) -> Plan:
    """Plan replicas of one rank in these sites, whose gradients cross by phases."""
    plan = plan_of([replica([6], 1) for _ in sites])
    replicas = tuple(
        replace(each, stages=(replace(each.stages[0], chip_class=f"{site}/chip"),))
        for each, site in zip(plan.replicas, sites, strict=True)
    )
    members = tuple((index, 0) for index in range(len(sites)))
    crossing = Exchange(unit=6, members=members, wire="node", wire_bytes=1.0, inside_ms=1.0)
    return replace(plan, replicas=replicas, exchanges=(crossing,))


class TestLanes:
    """Who sums what with whom."""

    def test_ranks_by_site(self):
        """Ranks are grouped by the site in their class's name, whatever their order."""
        assert by_site(sites_of(spread("south", "north", "south")), (2, 1, 0)) == ((1,), (0, 2))

    def test_like_sites(self):
        """In sites of equal size every member has one lane."""
        assert [lane.owners for lane in lanes_of([(0, 1), (2, 3)])] == [(0, 2), (1, 3)]

    def test_one_site(self):
        """Within one site lanes are the members' equal shares."""
        lanes = lanes_of([(4, 5, 6)])
        assert [part_of(32, lane) for lane in lanes] == [(0, 10), (10, 21), (21, 32)]
        assert [lane.owners for lane in lanes] == [(4,), (5,), (6,)]

    @LAWS
    @given(SIZES)
    def test_every_member_owns_an_equal_share(self, sizes):
        """Lanes cover the whole once; in each site all own neighbouring lanes that are equally much together."""
        sites = sites_of_sizes(sizes)
        lanes = lanes_of(sites)
        assert (lanes[0].begin, lanes[-1].end) == (0, 1)
        assert all(one.end == other.begin for one, other in pairwise(lanes))
        assert len(lanes) <= sum(sizes) - len(sizes) + 1
        for index, site in enumerate(sites):
            owners = [lane.owners[index] for lane in lanes]
            assert owners == sorted(owners)
            for rank in site:
                assert sum(e.end - e.begin for e in lanes if e.owners[index] == rank) == Fraction(1, len(site))

    @LAWS
    @given(SIZES)
    def test_no_two_lanes_have_the_same_owners(self, sizes):
        """So each lane has a group of its own, and none waits for another."""
        owners = [lane.owners for lane in lanes_of(sites_of_sizes(sizes))]
        assert len(set(owners)) == len(owners)


def bucket_of(plan: Plan, rank: int, lengths: list[int] | None = None) -> SiteBucket:
    """Build a bucket of everybody: whole, or with a segment of such a length for each lane."""
    groups = make_groups(plan, seat_of(plan, rank), PEER_TIMEOUT)
    (everybody,) = groups.exchange
    sums = groups.phased[everybody]
    owned = [index for index, lane in enumerate(sums.lanes) if rank in lane.owners] if lengths else [0]
    return SiteBucket(lengths or [LENGTH], owned, sums, dtype=torch.float32, device=torch.device("cpu"))


def summed(plan: Plan, rank: int) -> tuple[list[float], list[float]]:
    """Sum a bucket of ranks' own numbers twice."""
    bucket, found = bucket_of(plan, rank), []
    for scale in (1, 2):
        bucket.flat.copy_(torch.arange(LENGTH) + 100.0 * scale * rank)
        bucket.start_reduce()
        bucket.wait_reduced()
        found.append(bucket.reduced.tolist())
    return found[0], found[1]


def gathered(plan: Plan, rank: int, lengths: list[int]) -> list[float]:
    """Sum segments for their owners, double what is owned, and gather it inside the site."""
    bucket = bucket_of(plan, rank, lengths)
    bucket.flat.copy_(torch.arange(len(bucket.flat)) + 100.0 * rank)
    bucket.start_reduce()
    bucket.wait_reduced()
    bucket.start_gather(2 * bucket.reduced)
    bucket.wait_gathered()
    return [value for index in range(len(lengths)) for value in bucket.gathered_segment(index).tolist()]


WORLDS = ["north south", "north north south south", "north south south south north", "a b b c"]


@pytest.mark.slow
class TestSums:
    """Real ranks."""

    @pytest.mark.parametrize("sites", WORLDS)
    def test_is_the_sum(self, sites):
        """Whatever the sites' sizes, all members end with the sum over all, bucket after bucket."""
        plan = spread(*sites.split())
        count, ranks = plan.world_size, sum(range(plan.world_size))
        wanted = tuple([count * i + 100.0 * scale * ranks for i in range(LENGTH)] for scale in (1, 2))
        assert in_world(count, lambda rank: summed(plan, rank)) == [wanted] * count

    @pytest.mark.parametrize("sites", WORLDS[1:])
    def test_sharded(self, sites):
        """Owners alone have the sums and update them; what all gather in their sites is the same in every site."""
        plan = spread(*sites.split())
        lanes = lanes_of(by_site(sites_of(plan), range(plan.world_size)))
        lengths = [3, 0, 5, 1][: len(lanes)]
        count, ranks = plan.world_size, sum(range(plan.world_size))
        wanted = [2 * (count * i + 100.0 * ranks) for i in range(sum(lengths))]
        assert in_world(count, lambda rank: gathered(plan, rank, lengths)) == [wanted] * count


class TestGroups:
    """What is made, and what is not."""

    def test_one_site_needs_no_phases(self):
        """Where all stand in one site there is nothing to cross, whatever the exchange says."""
        plan = spread("north", "north")
        assert in_world(2, lambda rank: len(make_groups(plan, seat_of(plan, rank), PEER_TIMEOUT).phased)) == [0, 0]
