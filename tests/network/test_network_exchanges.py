"""When a gradient is whole, and how exchanges queue."""

from dataclasses import replace

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import EMBEDDING, Exchange, Gather, Plan, Replica, Stage, Wire
from argosy.network.exchanges import (
    by_phases,
    gathered,
    gradient_delay_ms,
    serve_exchanges,
    serve_gathers,
)
from support.phases import gather_inside


def stage(first: int, end: int, shares: tuple[float, ...], backward_ms: float = 10) -> Stage:
    """Build a stage that computes its layers in 15 ms."""
    return Stage(
        first_layer=first,
        end_layer=end,
        chip_class="c",
        forward_ms=5,
        backward_ms=backward_ms,
        backward_shares=shares,
    )


FIRST = stage(0, 2, (0.1, 0.4, 0.5))
LAST = stage(2, 3, (0.7, 0.3))


def plan(*exchanges: Exchange, shared: bool = True, tied: bool = False) -> Plan:
    """Build a plan of two replicas of three layers on two stages."""
    replica = Replica(stages=(FIRST, LAST), microbatches=2, microbatch_size=1)
    return Plan(
        model="m",
        num_layers=3,
        fleet="f",
        sequence_length=8,
        global_batch_size=4,
        replicas=(replica, replica),
        tied_embeddings=tied,
        wires=(Wire(name="w", gbps=8, one_way_ms=1, shared=shared),),
        exchanges=exchanges,
    )


def exchange(unit: int, stage_index: int = 0, gather_bytes: float = 0.0) -> Exchange:
    """Build an exchange of 1 MB between both replicas."""
    members = ((0, stage_index), (1, stage_index))
    return Exchange(unit=unit, members=members, wire="w", wire_bytes=1e6, gather_bytes=gather_bytes)


class TestGradientDelay:
    def test_last_unit_first(self) -> None:
        """Backward runs from the last unit to the first."""
        assert gradient_delay_ms(plan(), FIRST, 1) == pytest.approx(5)
        assert gradient_delay_ms(plan(), FIRST, EMBEDDING) == pytest.approx(10)

    def test_tied_embedding_on_the_last_stage(self) -> None:
        """A tied embedding is ready on the last stage with the head."""
        assert gradient_delay_ms(plan(tied=True), LAST, EMBEDDING) == pytest.approx(3)

    def test_unit_elsewhere(self) -> None:
        """A unit of another stage is refused."""
        with pytest.raises(BadInputError, match=r"unit 0 is not on the stage of layers 2\.\.3"):
            gradient_delay_ms(plan(), LAST, 0)


class TestServe:
    def test_higher_unit_first(self) -> None:
        """Of two exchanges ready at once the higher unit goes first, and hops delay both arrivals."""
        served = serve_exchanges(plan(exchange(0), exchange(1)), [0, 0])
        assert [(s.start_ms, s.end_ms) for s in served] == [(1, 4), (0, 3)]

    def test_gathers_lower_unit_first(self) -> None:
        """Gathers go in the order that the next forward needs; exchanges without one are left out."""
        served = serve_gathers(plan(exchange(1, 0, 1e6), exchange(0, 0, 1e6), exchange(2, 1)), [0, 0])
        assert [s.start_ms for s in served] == [1, 0]

    def test_private_lanes_by_members(self) -> None:
        """On a private wire exchanges of different members do not wait for one another."""
        served = serve_exchanges(plan(exchange(1), exchange(2, 1), shared=False), [0, 0])
        assert [s.start_ms for s in served] == [0, 0]

    def test_virtual_stages_of_a_place_share_its_lane(self) -> None:
        """Two stages on one place have the same ports, so their exchanges on a private wire wait for one another."""
        one_place = replace(plan(exchange(1), exchange(2, 1), shared=False), virtual_stages=2)
        assert [s.start_ms for s in serve_exchanges(one_place, [0, 0])] == [1, 0]


class TestPhases:
    """Summed inside each site, across, and spread inside."""

    FLAT = Exchange(unit=0, members=((0, 0), (1, 0)), wire="w", wire_bytes=2 * 5 / 6 * 8e6, hops=4)
    INSIDE = Wire(name="inside", gbps=64, one_way_ms=0.1)
    WIRES = (INSIDE,)

    def sites(self, *holders: int) -> list[Gather]:
        """Build sites of so many holders of 8 MB each."""
        return [gather_inside([(index, 0)], count, 8e6, self.INSIDE) for index, count in enumerate(holders)]

    def test_two_sites(self) -> None:
        """Of two sites only one sum each crosses; the larger site's two phases inside come on top."""
        made = by_phases(self.FLAT, 8e6, self.sites(2, 4), self.WIRES, sites=2)
        assert (made.wire_bytes, made.hops, made.gathers) == (8e6, 2, ())
        assert made.inside_ms == pytest.approx(2 * (3 / 4 * 1 + 3 * 0.1))
        assert made.phased

    def test_sharded(self) -> None:
        """With ZeRO-1 as much crosses, before the update; half of the phases inside follow it, each in its site."""
        flat = replace(self.FLAT, wire_bytes=5 / 6 * 8e6, gather_bytes=5 / 6 * 8e6)
        made = by_phases(flat, 9e6, inside := self.sites(2, 4), self.WIRES, sites=3, gathered=1.0)
        assert (made.wire_bytes, made.gather_bytes, made.hops) == (9e6, 0, 4)
        assert made.inside_ms == pytest.approx(3 / 4 * 1 + 3 * 0.1)
        assert made.gathers == tuple(inside)
        assert [(gather.payload_bytes, gather.hops) for gather in made.gathers] == [(4e6, 1), (6e6, 3)]

    def test_gathered_in_fewer_bytes(self) -> None:
        """Parameters of half a gradient's bytes are gathered in half the time; the scatter takes what it took."""
        made = by_phases(self.FLAT, 8e6, self.sites(2, 2), self.WIRES, sites=2, gathered=0.5)
        assert [gather.payload_bytes for gather in made.gathers] == [2e6, 2e6]
        assert made.inside_ms == pytest.approx(0.5 + 0.1)

    @pytest.mark.parametrize("gathered", [0.0, 1.0])
    def test_one_holder_a_site(self, gathered: float) -> None:
        """With a single holder in every site there is nothing to do inside, nor anything to shard."""
        made = by_phases(self.FLAT, 8e6, [], self.WIRES, sites=2, gathered=gathered)
        assert (made.wire_bytes, made.inside_ms, made.gathers, made.phased) == (8e6, 0.0, (), False)

    def test_phases_delay_the_end_only(self) -> None:
        """An exchange ends its phases inside later; the wire serves the next meanwhile."""
        first, second = (replace(exchange(unit), inside_ms=7.0) for unit in (1, 0))
        assert [(s.start_ms, s.end_ms) for s in serve_exchanges(plan(first, second), [0, 0])] == [(0, 10), (1, 11)]

    def test_gathers_of_sites_do_not_wait_for_one_another(self) -> None:
        """Each site gathers over its own wire; two units of one site queue, the lower first."""
        inside = self.sites(2, 2)
        units = [by_phases(exchange(unit), 8e6, inside, self.WIRES, sites=2, gathered=1.0) for unit in (1, 0)]
        the_plan = replace(plan(*units), wires=(*plan().wires, self.INSIDE))
        assert [(unit, gather.members) for unit, gather in gathered(the_plan)] == [
            (1, ((0, 0),)),
            (1, ((1, 0),)),
            (0, ((0, 0),)),
            (0, ((1, 0),)),
        ]
        served = serve_gathers(the_plan, [0, 3, 0, 0])
        assert [s.start_ms for s in served] == [0.5, 3, 0, 0]
