"""When a gradient is whole, and how exchanges queue."""

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import EMBEDDING, Exchange, Plan, Replica, Stage, Wire
from argosy.network.exchanges import gradient_delay_ms, serve_exchanges, serve_gathers


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
