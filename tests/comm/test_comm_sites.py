"""Sums across sites by phases: who does what, and that the sum is the sum."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.comm.buckets import FlatBucket
from argosy.comm.groups import make_groups, seat_of
from argosy.comm.sites import by_site, lanes_of
from argosy.contracts.plan import Exchange, Plan
from support.training import plan_of, replica
from support.worlds import PEER_TIMEOUT, in_world

LAWS = settings(derandomize=True, deadline=None, max_examples=50)
LENGTH = 11


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
        assert by_site(spread("south", "north", "south"), (2, 1, 0)) == ((1,), (0, 2))

    def test_like_sites(self):
        """In sites of equal size every member has one lane."""
        assert lanes_of([(0, 1), (2, 3)]) == ((0, 2), (1, 3))

    @LAWS
    @given(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    def test_every_member_of_the_largest_site_has_one_lane(self, sizes):
        """There are as many lanes as the largest site has members, each with one member of every site."""
        ranks = iter(range(sum(sizes)))
        sites = [tuple(next(ranks) for _ in range(size)) for size in sizes]
        lanes = lanes_of(sites)
        assert len(lanes) == max(sizes)
        assert all(rank in site for lane in lanes for rank, site in zip(lane, sites, strict=True))
        assert all(any(rank in lane for lane in lanes) for site in sites for rank in site)


def summed(plan: Plan, rank: int) -> tuple[list[float], list[float]]:
    """Sum two buckets of ranks' own numbers, one behind the other."""
    seat = seat_of(plan, rank)
    groups = make_groups(plan, seat, PEER_TIMEOUT)
    (everybody,) = groups.exchange
    found = []
    buckets = [
        FlatBucket((LENGTH,), 0, groups.phased[everybody], dtype=torch.float32, device=torch.device("cpu"))
        for _ in range(2)
    ]
    for scale, bucket in enumerate(buckets, 1):
        bucket.flat.copy_(torch.arange(LENGTH) + 100.0 * scale * rank)
        bucket.start_reduce()
    for bucket in buckets:
        bucket.wait_reduced()
        found.append(bucket.reduced.tolist())
    return found[0], found[1]


@pytest.mark.slow
class TestSums:
    """Real ranks."""

    @pytest.mark.parametrize(
        "sites",
        ["north south", "north north south south", "north south south south north", "a b b c"],
    )
    def test_is_the_sum(self, sites):
        """Whatever the sites' sizes, all members end with the sum over all, bucket after bucket."""
        plan = spread(*sites.split())
        count, ranks = plan.world_size, sum(range(plan.world_size))
        wanted = tuple([count * i + 100.0 * scale * ranks for i in range(LENGTH)] for scale in (1, 2))
        assert in_world(count, lambda rank: summed(plan, rank)) == [wanted] * count


class TestGroups:
    """What is made, and what is not."""

    def test_one_site_needs_no_phases(self):
        """Where all stand in one site there is nothing to cross, whatever the exchange says."""
        plan = spread("north", "north")
        assert in_world(2, lambda rank: len(make_groups(plan, seat_of(plan, rank), PEER_TIMEOUT).phased)) == [0, 0]
