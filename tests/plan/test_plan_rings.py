"""Who sums which gradients: bytes, wires, and the phases of an exchange across sites."""

from typing import Any

import pytest

from argosy.plan.rings import Held, holder_of, inside_ms, make_ring, passed_bytes


def held(chip_class: Any, count: int = 2, tp: int = 1, cp: int = 1, ep: int = 1) -> Held:
    """Build a place that holds some units in each of count replicas."""
    holder = holder_of(chip_class, tp, tp * cp * ep, 1)
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


class TestAcrossSites:
    @pytest.mark.parametrize("count", [1, 4])
    def test_hierarchical(self, build: Any, count: int) -> None:
        """Sums made inside sites first pass a long link of two sites once; a flat ring of many nearly twice."""
        places = [held(build.chip_class(f"{site}/fast"), count) for site in ("north", "south")]
        links = (build.link(gbps=10.0),)
        flat, sites = (make_ring(places, (), links, hierarchical=way) for way in (False, True))
        assert flat is not None
        assert sites is not None
        one, other = (ring.exchange(0, (1e6, 0.0), 0) for ring in (flat, sites))
        assert one.wire == other.wire == "north-south"
        assert other.wire_bytes == pytest.approx(1e6)
        assert one.wire_bytes == pytest.approx(1e6 * (2 * count - 1) / count)
        assert (one.inside_ms, other.hops) == (0, 2)
        assert (other.inside_ms > 0) == (count > 1)

    def test_slowest_site(self, build: Any) -> None:
        """The phases inside take as long as in the site with the narrowest network."""
        wide, narrow = (held(build.chip_class(f"{s}/x", nic_gbps=g), 4) for s, g in (("north", 25.0), ("south", 5.0)))
        links = (build.link(),)
        assert inside_ms([wide, narrow], (1e6, 0.0), links) == inside_ms([narrow], (1e6, 0.0), links)

    def test_alone(self, build: Any) -> None:
        """A single holder sums with nobody; the EP ranks of one place do."""
        assert make_ring([held(build.chip_class(), count=1)], (), (), hierarchical=False) is None
        assert make_ring([held(build.chip_class(), count=1, ep=2)], (), (), hierarchical=False) is not None
