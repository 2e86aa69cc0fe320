"""Queues on wires: arithmetic by hand, and laws."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Wire
from argosy.network.wires import Queue, Served, Transfer, find_wire, schedule, send_ms

MB = 1e6


def wire(name: str = "link", gbps: float = 8, one_way_ms: float = 1, shared: bool = True) -> Wire:
    """Build a wire that needs 1 ms for 1 MB."""
    return Wire(name=name, gbps=gbps, one_way_ms=one_way_ms, shared=shared)


def transfer(ready_ms: float = 0, payload_bytes: float = MB, **more: object) -> Transfer:
    """Build a transfer of 1 MB that is ready at once."""
    return Transfer(**{"wire": "link", "ready_ms": ready_ms, "payload_bytes": payload_bytes, **more})  # type: ignore[arg-type]


class TestSendMs:
    def test_rate(self) -> None:
        """A megabyte takes a millisecond at 8 Gb/s."""
        assert send_ms(wire(gbps=8), MB) == 1

    def test_dead_wire(self) -> None:
        """A wire without a rate is refused by name."""
        with pytest.raises(BadInputError, match="wire 'link' carries 0 Gb/s"):
            send_ms(wire(gbps=0), MB)


class TestFindWire:
    def test_unknown(self) -> None:
        """An unknown wire's error lists those that exist."""
        with pytest.raises(BadInputError, match="no wire 'lnik' in the plan; it has: link"):
            find_wire([wire()], "lnik")


class TestQueue:
    def test_delay_does_not_occupy(self) -> None:
        """The second transfer starts when the first has left, not when it has arrived."""
        queue = Queue(wire(one_way_ms=5))
        assert queue.serve(0, MB) == Served(start_ms=0, end_ms=6)
        assert queue.serve(0, MB) == Served(start_ms=1, end_ms=7)


class TestSchedule:
    def test_shared_wire_is_one_queue(self) -> None:
        """On a shared wire the lanes wait for one another."""
        served = schedule([transfer(lane="a"), transfer(lane="b")], [wire()])
        assert [s.start_ms for s in served] == [0, 1]

    def test_private_wire_has_a_queue_per_lane(self) -> None:
        """On a private wire only equal lanes wait for one another."""
        served = schedule([transfer(lane="a"), transfer(lane="b"), transfer(lane="a")], [wire(shared=False)])
        assert [s.start_ms for s in served] == [0, 0, 1]

    def test_first_come_first_served(self) -> None:
        """Who is ready first goes first, whatever the order of listing."""
        served = schedule([transfer(ready_ms=0.5), transfer(ready_ms=0)], [wire()])
        assert [s.start_ms for s in served] == [1, 0]

    def test_order_breaks_ties(self) -> None:
        """Among those ready at once the lowest order goes first."""
        served = schedule([transfer(order=2), transfer(order=1)], [wire()])
        assert [s.start_ms for s in served] == [1, 0]

    def test_hops(self) -> None:
        """Every hop adds one delay to the arrival."""
        assert schedule([transfer(hops=3)], [wire()])[0].end_ms == 4

    def test_unknown_wire(self) -> None:
        """A transfer over a wire that is not there is refused."""
        with pytest.raises(BadInputError, match="no wire 'rope'"):
            schedule([transfer(wire="rope")], [wire()])


transfers = st.lists(
    st.builds(transfer, st.integers(0, 50), st.integers(0, 9).map(lambda n: n * MB), lane=st.sampled_from("ab")),
    max_size=12,
)


class TestLaws:
    @settings(derandomize=True, deadline=None)
    @given(transfers, st.booleans())
    def test_no_two_at_once(self, listed: list[Transfer], shared: bool) -> None:
        """A queue carries one transfer at a time and never starts one before it is ready."""
        link = wire(shared=shared, one_way_ms=0)
        served = schedule(listed, [link])
        for lane in "ab":
            times = sorted(
                (s.start_ms, s.end_ms) for t, s in zip(listed, served, strict=True) if shared or t.lane == lane
            )
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
        assert all(s.start_ms >= t.ready_ms for t, s in zip(listed, served, strict=True))

    @settings(derandomize=True, deadline=None)
    @given(transfers)
    def test_work_conserving(self, listed: list[Transfer]) -> None:
        """A queue is idle only while nothing is ready: each start is a ready time or another's end."""
        served = schedule(listed, [wire(one_way_ms=0)])
        ends = {s.end_ms for s in served}
        assert all(s.start_ms == t.ready_ms or s.start_ms in ends for t, s in zip(listed, served, strict=True))
