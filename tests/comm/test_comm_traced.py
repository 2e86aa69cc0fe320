"""The traced clock: what its file says of a rank."""

import pytest

from argosy.comm import traced
from argosy.comm.clock import RealClock
from argosy.comm.groups import Seat
from argosy.comm.traced import TracedClock
from argosy.contracts.codec import decode
from argosy.contracts.rank_trace import RankTrace


class FakeClock(RealClock):
    """A virtual clock on which each piece of work takes 10 ms."""

    def __init__(self) -> None:
        self.time_ms = 0.0

    def end(self, kind, stage, microbatch):
        """Let the work's time pass."""
        self.time_ms += 10

    def now_ms(self):
        """Give the virtual time."""
        return self.time_ms

    def began_ms(self):
        """Give the start of the last work."""
        return self.time_ms - 10

    def exchanges(self):
        """Give two exchanges."""
        return [(-1, 5.0, 9.0), (3, 6.0, 8.0)]


def clock(inner=None, *, rank: int = 0) -> TracedClock:
    """Trace a clock."""
    return TracedClock(inner or FakeClock(), Seat(rank=rank, replica=1, stage=2, tp_index=0))


def step(made: TracedClock) -> None:
    """Run a step of one micro-batch."""
    for kind in "FB":
        made.begin(kind, 2, 0)
        made.end(kind, 2, 0)
    made.barrier()
    made.updated()
    made.gathered()


def written(made: TracedClock, folder) -> RankTrace:
    """Write and read the file."""
    made.write(folder / "trace")
    (path,) = (folder / "trace").iterdir()
    assert path.name == f"rank-{made.seat.rank:05d}.json"
    return decode(path.read_bytes(), RankTrace)


class TestFile:
    """One JSON file a rank."""

    def test_holds_the_seat_and_all_work(self, tmp_path):
        """The file names the rank's seat, and each step's work, exchanges and update in order."""
        made = clock()
        made.start()
        step(made)
        step(made)
        found = written(made, tmp_path)
        assert (found.rank, found.replica, found.stage) == (0, 1, 2)
        assert found.clock == "emulated"
        assert [(op.kind, op.step) for op in found.ops] == [(kind, n) for n in (1, 2) for kind in "FBXXU"]

    def test_holds_both_times(self, tmp_path):
        """Work has virtual times and wall times that do not run backwards."""
        made = clock()
        made.start()
        step(made)
        forward, backward = written(made, tmp_path).ops[:2]
        assert (forward.virtual_start_ms, forward.virtual_end_ms) == (0, 10)
        assert (backward.virtual_start_ms, backward.virtual_end_ms) == (10, 20)
        assert 0 <= forward.start_ms <= forward.end_ms <= backward.start_ms <= backward.end_ms

    def test_real_chips_have_no_virtual_time(self, tmp_path):
        """On a real clock virtual times are absent and there are no exchanges to tell of."""
        made = clock(RealClock())
        made.start()
        step(made)
        found = written(made, tmp_path)
        assert [op.kind for op in found.ops] == ["F", "B", "U"]
        assert {op.virtual_end_ms for op in found.ops} == {None}
        assert found.clock == "host"

    def test_rank_0_notes_exchanges_for_all(self, tmp_path):
        """Exchanges are in one file only, with their unit."""
        first, other = clock(), clock(rank=3)
        for made in (first, other):
            made.start()
            step(made)
        assert [op.unit for op in first.ops if op.kind == "X"] == [-1, 3]
        assert [op.unit for op in other.ops if op.kind == "X"] == []

    def test_is_bounded(self, tmp_path, monkeypatch):
        """Beyond MAX_OPS operations are counted, not kept; the first ones stay."""
        monkeypatch.setattr(traced, "MAX_OPS", 3)
        made = clock()
        made.start()
        step(made)
        step(made)
        found = written(made, tmp_path)
        assert ([op.kind for op in found.ops], found.dropped) == (["F", "B", "X"], 7)


class TestPassing:
    """It changes nothing."""

    @pytest.mark.parametrize("name", ["now_ms", "began_ms", "exchanges"])
    def test_answers_are_the_inner_clocks(self, name):
        """Whoever asks gets what the inner clock says."""
        made = clock()
        assert getattr(made, name)() == getattr(made.inner, name)()
