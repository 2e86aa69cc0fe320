"""Who sums which gradients: bytes, wires, and the phases of an exchange across sites."""

from typing import Any

import pytest

from argosy.contracts.fleet import LongLink
from argosy.plan.costs.rings import Held, Ring, holder_of, make_ring, passed_bytes


def held(chip_class: Any, count: int = 2, tp: int = 1, cp: int = 1, ep: int = 1) -> Held:
    """Build a place that holds some units in each of count replicas."""
    holder = holder_of(chip_class, tp, tp * cp * ep, 1, chip_class.chips)
    return Held(holder=holder, count=count, copies=cp * ep, ep=ep)


class TestBytes:
    def test_dense(self, build: Any) -> None:
        """What all hold goes round a ring of replicas, CP and EP ranks."""
        assert passed_bytes([held(build.chip_class(), count=4)], (100.0, 0.0)) == 150
        assert passed_bytes([held(build.chip_class(), count=2, cp=2)], (100.0, 0.0)) == 150
        assert passed_bytes([held(build.chip_class(), count=2, ep=2)], (100.0, 0.0)) == 150

    def test_experts(self, build: Any) -> None:
        """Experts are summed over replicas and CP ranks only, and one replica alone sums none."""
        assert passed_bytes([held(build.chip_class(), count=2, ep=2)], (0.0, 100.0)) == 100
        assert passed_bytes([held(build.chip_class(), count=1, ep=2)], (0.0, 100.0)) == 0

    def test_experts_over_nodes(self, build: Any) -> None:
        """A place of two nodes passes half of its experts through each."""
        assert passed_bytes([held(build.chip_class(), count=2, ep=4)], (0.0, 100.0)) == 50


def across(build: Any, *places: Held, hierarchical: bool = True, gbps: float = 10.0, weight_bytes: int = 4) -> Ring:
    """Build the ring of places, each shown as one replica."""
    members = tuple(((replica, 0), place.site) for replica, place in enumerate(places))
    links = (build.link(gbps=gbps),)
    ring = make_ring(places, members, links, hierarchical=hierarchical, weight_bytes=weight_bytes)
    assert ring is not None
    return ring


class TestAcrossSites:
    @pytest.mark.parametrize("count", [1, 4])
    def test_hierarchical(self, build: Any, count: int) -> None:
        """Sums made inside sites first pass a long link of two sites once; a flat ring of many nearly twice."""
        places = [held(build.chip_class(f"{site}/fast"), count) for site in ("north", "south")]
        flat, sites = (across(build, *places, hierarchical=way) for way in (False, True))
        one, other = (ring.exchange(0, (1e6, 0.0), 0) for ring in (flat, sites))
        assert one.wire == other.wire == "north-south"
        assert other.wire_bytes == pytest.approx(1e6)
        assert one.wire_bytes == pytest.approx(1e6 * (2 * count - 1) / count)
        assert (one.inside_ms, other.hops) == (0, 2)
        assert (other.inside_ms > 0) == (count > 1)

    def test_out_of_order(self, build: Any) -> None:
        """Where a ring goes over a link twice in one direction, flat or by phases, it sends twice the bytes there."""
        pairs = (("a", "c"), ("c", "b"), ("b", "d"))
        links = tuple(LongLink(between=pair, km=50.0, gbps=10.0) for pair in pairs)
        places = [held(build.chip_class(f"{site}/fast"), 2) for site in "abcd"]
        members = tuple(((replica, 0), place.site) for replica, place in enumerate(places))
        found = []
        for hierarchical in (False, True):
            ring = make_ring(places, members, links, hierarchical=hierarchical)
            assert ring is not None
            found.append(ring.exchange(0, (1e6, 0.0), 0).wire_bytes)
        assert found == [pytest.approx(2 * 1e6 * 2 * 7 / 8), pytest.approx(2 * 1e6 * 2 * 3 / 4)]

    def test_slowest_site(self, build: Any) -> None:
        """The phases inside take as long as in the site with the narrowest network."""
        wide, narrow = (held(build.chip_class(f"{s}/x", nic_gbps=g), 4) for s, g in (("north", 25.0), ("south", 5.0)))
        alone = held(build.chip_class("north/x"), 1)
        mixed, apart = (across(build, one, narrow).exchange(0, (1e6, 0.0), 0) for one in (wide, alone))
        assert mixed.inside_ms == apart.inside_ms > 0

    def test_sharded(self, build: Any) -> None:
        """With ZeRO only sums cross, before the update; then each site of several gathers its shards inside."""
        places = [held(build.chip_class(f"{site}/fast"), count) for site, count in (("north", 4), ("south", 1))]
        whole, sharded = (across(build, *places).exchange(0, (1e6, 0.0), zero) for zero in (0, 1))
        assert (sharded.wire_bytes, sharded.gather_bytes) == (whole.wire_bytes, 0)
        assert sharded.inside_ms == whole.inside_ms / 2
        assert [gather.members for gather in sharded.gathers] == [((0, 0),)]
        assert sharded.gathers[0].payload_bytes == pytest.approx(1e6 * 3 / 4)

    def test_gathered_as_trained(self, build: Any) -> None:
        """What is gathered are parameters, which a program in 16 bits has half as many bytes of as of gradients."""
        places = [held(build.chip_class(f"{site}/fast"), 4) for site in ("north", "south")]
        wide, narrow = (across(build, *places, weight_bytes=size).exchange(0, (1e6, 0.0), 1) for size in (4, 2))
        assert [g.payload_bytes for g in wide.gathers] == [2 * g.payload_bytes for g in narrow.gathers]

    def test_alone(self, build: Any) -> None:
        """A single holder sums with nobody; the EP ranks of one place do."""
        assert make_ring([held(build.chip_class(), count=1)], (), (), hierarchical=False) is None
        assert make_ring([held(build.chip_class(), count=1, ep=2)], (), (), hierarchical=False) is not None
