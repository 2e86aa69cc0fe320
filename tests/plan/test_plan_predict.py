"""What is predicted of a plan whose gradients cross a long link."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import EMBEDDING, Exchange, Plan, Replica, Send, Stage, Wire
from argosy.plan.search.predict import exchange_shares
from argosy.plan.timing.timeline import simulate


def two_sites(wire_bytes: float) -> Plan:
    """Build two pipelines of two stages, 1 ms forward and 2 ms back, over a link of 1 MB/ms.

    The last layer is exchanged from 4 ms on, the embedding from 6 ms on, when all work is done.
    """
    stages = tuple(
        Stage(
            first_layer=s,
            end_layer=s + 1,
            chip_class=f"{site}/fast",
            forward_ms=1,
            backward_ms=2,
            backward_shares=(0.5, 0.5),
        )
        for s, site in enumerate(("north", "south"))
    )
    replica = Replica(stages=stages, microbatches=1, microbatch_size=1, sends=(Send(wire="free", payload_bytes=0),))
    exchanges = (
        Exchange(unit=u, members=((0, s), (1, s)), wire="long", wire_bytes=wire_bytes, hops=0)
        for u, s in ((EMBEDDING, 0), (1, 1))
    )
    return Plan(
        model="m",
        num_layers=2,
        fleet="f",
        sequence_length=8,
        global_batch_size=2,
        replicas=(replica, replica),
        schedule="gpipe",
        wires=(
            Wire(name="free", gbps=8, one_way_ms=0),
            Wire(name="long", gbps=8, one_way_ms=0, shared=True, long_link=True),
        ),
        exchanges=tuple(exchanges),
    )


class TestExchangeShares:
    def test_by_hand(self) -> None:
        """2 ms of gradients, the later of which hides nowhere, after 6 ms of work: 2 of 8 ms, half of it hidden."""
        plan = two_sites(wire_bytes=1e6)
        assert simulate(plan).step_ms == pytest.approx(6 + 1)
        assert exchange_shares(plan, 7) == pytest.approx((2 / 8, 0.5))

    def test_nothing_crosses(self) -> None:
        """Without gradients over a long link there is nothing to hide."""
        assert exchange_shares(replace(two_sites(1e6), exchanges=()), 6) == (0, 1)

    @settings(derandomize=True, deadline=None, max_examples=30)
    @given(st.floats(1e3, 1e8))
    def test_never_the_whole_step(self, wire_bytes: float) -> None:
        """However slow the link, the share stays below one, for the work is in the step too."""
        plan = two_sites(wire_bytes)
        share, hidden = exchange_shares(plan, simulate(plan).step_ms)
        assert 2 * wire_bytes / 1e6 / (6 + 2 * wire_bytes / 1e6) == pytest.approx(share)
        assert 0 <= hidden <= 1
