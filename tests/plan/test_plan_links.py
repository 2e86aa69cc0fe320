"""Which wire joins what, and how fast it is."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import LongLink
from argosy.plan.costs.links import (
    Holder,
    all_reduce_ms,
    boundary_wire,
    can_join,
    find_link,
    has_link,
    ring_bytes,
    ring_hops,
    ring_passes,
    ring_wire,
    route,
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
        """A ring through three sites takes the slowest of their links, with its own name and delay."""
        near, far = build.link(gbps=20), replace(build.link(gbps=5), between=("east", "south"))
        ends = [holder(build.chip_class(f"{site}/fast")) for site in ("north", "south", "east")]
        third = replace(near, between=("east", "north"))
        wire = ring_wire(ends, [near, far, third])
        assert (wire.name, wire.gbps, wire.one_way_ms) == ("east-south", 5, 0.25)

    def test_no_faster_than_its_nics_says_so(self, build: Any) -> None:
        """What is not the link's own stands in the wire's name, so that two rings over it are told apart."""
        ends = [holder(build.chip_class(nodes=1)), holder(build.chip_class("south/slow"))]
        assert ring_wire(ends, [build.link(gbps=100)]).name == "north-south 25G"

    def test_no_link(self) -> None:
        """Two sites without a link between them are refused, saying what to add."""
        with pytest.raises(BadInputError, match=r"no long link between north and south; add one to long_links"):
            find_link("north", "south", [])


def line(*sites: str, gbps: float = 10.0) -> tuple[LongLink, ...]:
    """Link sites one after the other, each 50 km from the next."""
    return tuple(LongLink(between=pair, km=50.0, gbps=gbps) for pair in itertools.pairwise(sites))


class TestRoutes:
    def test_through_others(self) -> None:
        """Sites without a link of their own are joined through those between them."""
        links = line("a", "b", "c")
        assert [link.between for link in route("c", "a", links)] == [("b", "c"), ("a", "b")]
        assert can_join(["a", "c"], links)
        assert has_link("b", "a", links)
        assert not has_link("a", "c", links)

    def test_nowhere(self) -> None:
        """Sites that no links lead between can't be joined, and the error says what to add."""
        links = (*line("a", "b"), *line("c", "d"))
        assert not can_join(["a", "b", "c"], links)
        with pytest.raises(BadInputError, match=r"no long link leads from b to c; add one to long_links"):
            route("b", "c", links)

    def test_fewest_then_widest_then_shortest(self) -> None:
        """A link of its own goes before any detour; of detours the widest is taken, then the shortest."""
        wide, narrow = line("a", "b", "d", gbps=20), line("a", "c", "d")
        assert route("a", "d", (*narrow, *wide)) == wide
        direct = line("a", "d", gbps=1)
        assert route("a", "d", (*narrow, *wide, *direct)) == direct
        short = tuple(replace(link, km=1.0) for link in line("a", "e", "d", gbps=20))
        assert route("a", "d", (*wide, *short)) == short

    @pytest.mark.parametrize(
        ("links", "sites", "passes"),
        [
            # Every ring through a line in its order goes over each link once there and once back.
            (line("a", "b", "c"), "abc", 1),
            (line("a", "b", "c", "d"), "abcd", 1),
            (line("a", "c", "b"), "abc", 1),
            # Out of order it passes the middle twice: a-c-b, b-c, and c-b-d.
            (line("a", "c", "b", "d"), "abcd", 2),
            # A star, whose hub may be nobody's.
            ((*line("h", "a"), *line("h", "b"), *line("h", "c")), "abc", 1),
        ],
    )
    def test_shared_wires(self, links: tuple[LongLink, ...], sites: str, passes: int) -> None:
        """A ring whose edges share a link in one direction sends as much more over it."""
        assert ring_passes(tuple(sites), links) == passes

    def test_delay(self, build: Any) -> None:
        """A ring through a line waits for its longest way, which goes through the middle."""
        ends = [holder(build.chip_class(f"{site}/fast")) for site in "abc"]
        wire = ring_wire(ends, line("a", "b", "c"))
        assert (wire.name, wire.gbps, wire.one_way_ms) == ("a-b 0.5ms", 10, 0.5)


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
