"""The log's clock: steps of the wall's end no lease and stop no timer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.server.loop import SteadyClock

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US


class Times:
    """A wall's clock that can be set, and how much time has really passed."""

    def __init__(self, wall_us: int = 1000 * HOUR_US) -> None:
        self.wall_us, self.passed_us = wall_us, 0

    def clock(self, from_us: int = 0) -> SteadyClock:
        """Begin a clock from a log."""
        return SteadyClock(from_us, lambda: self.wall_us, lambda: self.passed_us)

    def wait(self, time_us: int) -> None:
        """Let time pass."""
        self.wall_us += time_us
        self.passed_us += time_us


class TestSteadyClock:
    def test_it_tells_what_the_wall_tells(self) -> None:
        """While nobody sets the clock both are the same."""
        times = Times()
        clock = times.clock()
        for _ in range(10):
            times.wait(SECOND_US)
            assert clock() == times.wall_us

    @pytest.mark.parametrize("step_us", [HOUR_US, 10**15])
    def test_a_step_forward_ends_no_lease(self, step_us: int) -> None:
        """A lease of 30 s lasts at least 29 s, whatever the wall's clock is set to."""
        times = Times()
        clock = times.clock()
        ends_us = clock() + 30 * SECOND_US
        times.wall_us += step_us
        for _ in range(29):
            assert clock() < ends_us
            times.wait(SECOND_US)

    def test_a_step_back_stops_no_timer(self) -> None:
        """It stood still until the wall was there again, and so did every lease and time limit."""
        times = Times()
        clock = times.clock()
        due_us = clock() + 30 * SECOND_US
        times.wall_us -= 2 * HOUR_US
        times.wait(31 * SECOND_US)
        assert clock() >= due_us

    def test_what_the_wall_is_ahead_is_caught_up(self) -> None:
        """A hundredth of the time that passes: after a hundred hours both tell the same again."""
        times = Times()
        clock = times.clock()
        times.wall_us += HOUR_US
        for _ in range(100):
            times.wait(HOUR_US)
            clock()
        assert clock() == times.wall_us

    def test_a_log_from_the_future_goes_on_from_there(self) -> None:
        """A server that begins with a clock behind its log's last time stood still for as long."""
        times = Times()
        clock = times.clock(from_us=times.wall_us + 24 * HOUR_US)
        first_us = clock()
        times.wait(100 * SECOND_US)
        assert clock() - first_us == 99 * SECOND_US

    @given(st.lists(st.tuples(st.integers(0, HOUR_US), st.integers(-(10**15), 10**15)), max_size=30))
    def test_it_never_goes_back_nor_runs_away(self, steps: list[tuple[int, int]]) -> None:
        """Whatever the wall does, it moves by the time that passed, a hundredth more or less."""
        times = Times()
        clock = times.clock()
        told = [(times.passed_us, clock())]
        for passed_us, step_us in steps:
            times.wall_us += step_us
            times.wait(passed_us)
            told.append((times.passed_us, clock()))
        for (before_us, old_us), (after_us, new_us) in pairwise(told):
            assert abs((new_us - old_us) - (after_us - before_us)) <= (after_us - before_us) // 100
