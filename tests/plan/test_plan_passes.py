"""The quick passage through a pipeline against the walk that lists every forward and backward."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import Plan, Replica, Send, Stage, Wire
from argosy.plan.passes import passage
from argosy.plan.timeline import run_replica, timed

law = settings(derandomize=True, deadline=None, max_examples=150)
work = st.floats(0.01, 9)
row = st.tuples(work, work, st.sampled_from([0.0, 0.3, 7.0]), st.sampled_from([0.0, 0.5, 11.0]))


def plan(rows: list[tuple[float, float, float, float]], microbatches: int, schedule: str) -> Plan:
    """Build a plan of one replica; rows: forward, backward, and sending and delay of the boundary after, in ms."""
    made = tuple(
        Stage(first_layer=i, end_layer=i + 1, chip_class="c", forward_ms=f, backward_ms=b, backward_shares=(1.0,))
        for i, (f, b, _, _) in enumerate(rows)
    )
    wires = tuple(Wire(name=str(i), gbps=8, one_way_ms=delay) for i, (_, _, _, delay) in enumerate(rows[:-1]))
    sends = tuple(Send(wire=str(i), payload_bytes=send * 1e6) for i, (_, _, send, _) in enumerate(rows[:-1]))
    replica = Replica(stages=made, microbatches=microbatches, microbatch_size=1, sends=sends)
    return Plan(
        model="m",
        num_layers=len(rows),
        fleet="f",
        sequence_length=1,
        global_batch_size=microbatches,
        replicas=(replica,),
        schedule=schedule,
        wires=wires,
    )


class TestLikeTheWalk:
    @law
    @given(
        st.lists(row, min_size=1, max_size=6),
        st.integers(0, 60),
        st.sampled_from(["gpipe", "1f1b"]),
        st.lists(st.floats(0, 20), min_size=6, max_size=6),
    )
    def test_any_pipeline(
        self, rows: list[tuple[float, float, float, float]], more: int, schedule: str, begins: list[float]
    ) -> None:
        """Whatever the stages, wires and clocks at first, all stages end when the walk says, to rounding."""
        one = plan(rows, len(rows) + more, schedule)
        walked, quick = (run(one, one.replicas[0], begins[: len(rows)]) for run in (run_replica, timed))
        assert quick.ends_ms == pytest.approx(walked.ends_ms, rel=1e-9)
        assert quick.last_backward_ms == pytest.approx(walked.last_backward_ms, rel=1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
    @pytest.mark.parametrize("sending_ms", [0.0, 0.7, 5.0])
    def test_many_microbatches(self, schedule: str, sending_ms: float) -> None:
        """Periods added at once give what thousands of micro-batches give one by one."""
        rows = [(1 + 0.37 * i % 0.9, 2.1 + 0.11 * i, sending_ms, 0.83 * i) for i in range(8)]
        one = plan(rows, 5000, schedule)
        walked, quick = (run(one, one.replicas[0], [0.0] * 8) for run in (run_replica, timed))
        assert quick.ends_ms == pytest.approx(walked.ends_ms, rel=1e-9)
        assert quick.last_backward_ms == pytest.approx(walked.last_backward_ms, rel=1e-9)


class TestBounded:
    @pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
    def test_a_billion(self, schedule: str) -> None:
        """A billion micro-batches are timed like a few: the slowest stage's time for each."""
        found = passage(schedule, ((1.0, 2.0), (1.5, 2.5)), ((0.1, 0.2),), 10**9, (0.0, 0.0))
        assert max(found.ends_ms) == pytest.approx(4e9, rel=0.2)
