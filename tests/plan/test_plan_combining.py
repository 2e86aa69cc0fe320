"""Choices of blocks taken together."""

from types import SimpleNamespace
from typing import Any

import pytest

from argosy.plan.search.combining import SECONDS, least_time_ms, together


def choice(rate: float, lag_ms: float = 0.0, site: str = "north") -> Any:
    """Make a choice that does so many sequences a ms after a lag, in a site."""
    return SimpleNamespace(
        rate=rate,
        lag_ms=lag_ms,
        done=lambda time_ms: max(0.0, rate * (time_ms - lag_ms)),
        template=SimpleNamespace(layout=SimpleNamespace(sites=frozenset({site}))),
    )


class TestLeastTimeMs:
    def test_alone(self) -> None:
        """One choice takes its lag and the batch at its rate."""
        assert least_time_ms([[choice(2.0, 5.0)]], 20) == pytest.approx(15.0, rel=1e-3)

    def test_shared(self) -> None:
        """Two blocks share a batch by their rates."""
        assert least_time_ms([[choice(3.0)], [choice(1.0)]], 40) == pytest.approx(10.0, rel=1e-3)

    def test_best_choice(self) -> None:
        """Of a block's choices the one that does most in the time counts, be it slow for long ones."""
        steep, soon = choice(10.0, 100.0), choice(1.0)
        assert least_time_ms([[steep, soon]], 5) == pytest.approx(5.0, rel=1e-3)
        assert least_time_ms([[steep, soon]], 1000) == pytest.approx(200.0, rel=1e-3)


class TestTogether:
    def test_block_alone(self) -> None:
        """Of a block alone all choices are taken."""
        choices = [choice(1.0), choice(2.0), choice(3.0)]
        assert list(together([choices], 10.0)) == [(one,) for one in choices]

    def test_most_done(self) -> None:
        """In one site only the best for the time and some around it are taken, each pair once."""
        best = choice(3.0)
        other = choice(2.0)
        assert list(together([[choice(1.0), best], [other]], 10.0)) == [(best, other)]

    def test_seconds_across_sites(self) -> None:
        """Across sites some that do less by themselves are taken too, for they may send less."""
        north, south = [choice(rate) for rate in (4.0, 3.0, 2.0, 1.0)], [choice(1.0, site="south")]
        found = list(together([north, south], 10.0))
        assert {pair[0].rate for pair in found} == {4.0, *[4.0 - n for n in range(1, SECONDS + 1)]}
