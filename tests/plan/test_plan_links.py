"""Which wire joins what, and how fast it is."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.plan.costs.links import (
    Holder,
    all_reduce_ms,
    boundary_wire,
    can_join,
    find_link,
    ring_bytes,
    ring_hops,
    ring_wire,
)


def holder(chip_class: Any, tp: int = 1, class_stages: int = 1, copies: int = 1) -> Holder:
    """Build a holder of a unit."""
    return Holder(chip_class=chip_class, tp=tp, width=tp * copies, class_stages=class_stages)


class TestRing:
    def test_bytes_and_hops(self) -> None:
        """A ring sends 2 (n-1)/n of its bytes and pays 2 (n-1) delays in a site, fewer long ones across."""
        assert ring_bytes(4, 100) == 150
        assert [ring_hops(*of) for of in ((4, 1), (2, 2), (8, 2), (9, 3))] == [6, 2, 4, 6]

    def test_one_node(self, build: Any) -> None:
        """Within a single node a ring takes the scale-up link."""
        wire = ring_wire([holder(build.chip_class(nodes=1))] * 2, ())
        assert wire.gbps == 800
        assert not wire.shared

    @pytest.mark.parametrize(("tp", "class_stages", "gbps"), [(1, 1, 25), (2, 1, 25), (1, 2, 12.5), (1, 5, 12.5)])
    def test_share_of_a_node(self, build: Any, tp: int, class_stages: int, gbps: float) -> None:
        """Between nodes a ring has the NICs to itself unless other stages on the node run rings too."""
        assert ring_wire([holder(build.chip_class(), tp, class_stages)] * 2, ()).gbps == gbps

    def test_long_link(self, build: Any) -> None:
        """Across sites a ring shares the long link, with its delay."""
        ends = [holder(build.chip_class()), holder(build.chip_class("south/slow"))]
        wire = ring_wire(ends, [build.link(gbps=10)])
        assert (wire.name, wire.gbps, wire.one_way_ms, wire.shared, wire.long_link) == (
            "north-south",
            10,
            0.25,
            True,
            True,
        )

    def test_long_link_through_narrow_nics(self, build: Any) -> None:
        """A long link is no faster than the NICs of the nodes at its ends."""
        ends = [holder(build.chip_class(nodes=1)), holder(build.chip_class("south/slow"))]
        assert ring_wire(ends, [build.link(gbps=100)]).gbps == 25

    def test_three_sites(self, build: Any) -> None:
        """A ring through three sites needs a link between each two, and takes the slowest."""
        near, far = build.link(gbps=20), replace(build.link(gbps=5), between=("east", "south"))
        assert not can_join(["north", "south", "east"], [near, far])
        ends = [holder(build.chip_class(f"{site}/fast")) for site in ("north", "south", "east")]
        third = replace(near, between=("east", "north"))
        assert ring_wire(ends, [near, far, third]).gbps == 5

    def test_no_link(self) -> None:
        """Two sites without a link between them are refused, saying what to add."""
        with pytest.raises(BadInputError, match=r"no long link between north and south; add one to long_links"):
            find_link("north", "south", [])


class TestBoundary:
    def test_in_a_node(self, build: Any) -> None:
        """Two stages that fill one node talk over its scale-up link."""
        one = holder(build.chip_class(), 1, 2)
        assert boundary_wire(one, one, 0, 1, 1, ()).name == "north/fast scale-up 800G"

    def test_between_nodes(self, build: Any) -> None:
        """Stages on different nodes talk over one chip's share of the NICs."""
        one = holder(build.chip_class(), 2, 2)
        assert boundary_wire(one, one, 0, 1, 1, ()).gbps == 12.5

    def test_between_classes(self, build: Any) -> None:
        """Between two classes of a site the smaller share counts."""
        after = holder(build.chip_class("north/slow", nic_gbps=5.0))
        assert boundary_wire(holder(build.chip_class()), after, 0, 0, 1, ()).gbps == 2.5

    def test_across_sites(self, build: Any) -> None:
        """Across sites each stream has its share of the long link."""
        after = holder(build.chip_class("south/slow"))
        wire = boundary_wire(holder(build.chip_class()), after, 0, 0, 4, [build.link(gbps=10)])
        assert (wire.gbps, wire.shared, wire.long_link) == (2.5, False, True)


class TestAllReduce:
    def test_ring(self, build: Any) -> None:
        """Two chips of 100 GB/s each send 1 GB in 10 ms, plus two delays."""
        assert all_reduce_ms(build.chip_class(), 2, 1e9) == pytest.approx(10 + 2 * 0.002)

    def test_alone(self, build: Any) -> None:
        """One chip has nobody to exchange with."""
        assert all_reduce_ms(build.chip_class(), 1, 1e9) == 0
