"""What a place with several stages holds at its fullest, and what of it is recomputed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.pipelines.virtual import most_gb, recomputed
from argosy.plan.timing.schedules import FORWARD, held_microbatches, place_order

law = settings(derandomize=True, deadline=None, max_examples=60)
sizes = st.lists(st.floats(0.0, 4.0), min_size=2, max_size=4)


def walked_gb(place: int, places: int, microbatches: int, sizes: list[float]) -> float:
    """Walk an interleaved place's whole step: the most that it holds at once."""
    held = most = 0.0
    for kind, stage, _ in place_order("interleaved", place, places, microbatches, len(sizes)):
        held += sizes[stage // places] * (1 if kind == FORWARD else -1)
        most = max(most, held)
    return most


class TestMost:
    @law
    @given(sizes, st.integers(2, 6), st.integers(0, 5), st.integers(1, 4))
    def test_as_walked(self, each: list[float], places: int, place: int, rounds: int) -> None:
        """It is never less than what the schedule's order holds, and no more where rounds repeat."""
        place, microbatches = place % places, rounds * places
        held = held_microbatches("interleaved", place, places, microbatches, len(each))
        walked = walked_gb(place, places, microbatches, each)
        told = most_gb(np.array(each), places, held)
        assert told >= walked - 1e-9
        if rounds == 4:
            assert told == pytest.approx(walked)


class TestRecomputed:
    @law
    @given(st.lists(st.integers(0, 3), min_size=2, max_size=2), st.floats(10.0, 60.0), st.sampled_from([1, 0]))
    def test_as_few_as_fit(self, begun: list[int], spare_gb: float, step: int) -> None:
        """What fits is found from any beginning, and with fewer layers recomputed on any stage it no longer fits."""
        kept = np.array([[np.arange(7) * 1.0] * 2, [np.arange(7) * 0.2] * 2])
        starts, ends = np.array([0, 3]), np.array([3, 6])
        counts = np.array(begun if step else [3 * (count > 1) for count in begun])
        fits = recomputed(kept, starts, ends, counts, 4, 11, spare_gb, step)
        assert fits == (gb([3, 3]) <= spare_gb)
        if fits:
            assert gb(counts) <= spare_gb
            fewer = [counts - np.eye(2, dtype=int)[stage] * (step or 3) for stage in range(2) if counts[stage]]
            assert all(gb(less) > spare_gb for less in fewer)


def gb(counts: list[int]) -> float:
    """Give what two stages of three layers hold with so many recomputed."""
    return most_gb(np.array([3 - 0.8 * count for count in counts]), 4, 11)
