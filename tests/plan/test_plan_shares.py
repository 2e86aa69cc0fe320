"""Dealing micro-batches against trying every deal."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.pipelines.shares import Kind, deal, least_time

law = settings(derandomize=True, deadline=None, max_examples=80)


def kind(pace_ms: float = 1.0, fill_ms: float = 1.0, count: int = 1, at_most: int = 99) -> Kind:
    """Build replicas of a kind."""
    return Kind(pace_ms=pace_ms, fill_ms=fill_ms, count=count, at_most=at_most)


def finish(kinds: list[Kind], dealt: tuple[tuple[tuple[int, int], ...], ...]) -> float:
    """Tell when the last replica of a deal is through."""
    return max(k.finish_ms(m) for k, shares in zip(kinds, dealt, strict=True) for m, _ in shares)


class TestDeal:
    def test_by_speed(self) -> None:
        """Three times the speed takes three times the micro-batches."""
        assert deal([kind(1), kind(3, 3)], 8) == (((6, 1),), ((2, 1),))

    def test_remainder(self) -> None:
        """What does not divide goes to some of like replicas."""
        assert deal([kind(count=14)], 1024) == (((74, 2), (73, 12)),)

    def test_too_slow_to_help(self) -> None:
        """A replica whose first micro-batch would come last gets none."""
        assert deal([kind(1), kind(100, 100)], 8) == (((8, 1),), ())

    def test_limit(self) -> None:
        """No replica takes more than it may; too many for all is refused."""
        assert deal([kind(1, at_most=2), kind(9, 9)], 4) == (((2, 1),), ((2, 1),))
        assert deal([kind(at_most=2)], 3) is None


class TestRounds:
    def test_sizes(self) -> None:
        """Rounds of several sequences are dealt so that all sequences are, the small ones filling up."""
        large, small = Kind(pace_ms=2, fill_ms=2, count=2, sequences=4), Kind(pace_ms=2, fill_ms=2, count=1)
        dealt = deal([large, small], 19)
        assert dealt is not None
        assert sum(m * n * k.sequences for k, row in zip([large, small], dealt, strict=True) for m, n in row) == 19

    def test_multiples(self) -> None:
        """A kind that takes rounds in groups gets whole groups, or the batch is refused."""
        groups = Kind(pace_ms=1, fill_ms=4, count=2, multiple=4, at_least=4)
        assert deal([groups], 24) == (((12, 2),),)
        assert deal([groups], 26) is None

    def test_rounds_that_go_into_them(self) -> None:
        """Of rounds of 3 one takes 3 to 5, two 6 or 8, three 9: what is between is lowered to the next."""
        rounds = Kind(pace_ms=1, fill_ms=3, count=1, at_least=3, round_of=3)
        assert [rounds.allowed(most) for most in range(1, 13)] == [0, 0, 3, 4, 5, 6, 6, 8, 9, 9, 9, 12]
        assert deal([rounds], 8) == (((8, 1),),)
        assert deal([rounds], 7) is None
        assert deal([replace(rounds, count=2)], 14) == (((8, 1), (6, 1)),)

    def test_too_few_to_run(self) -> None:
        """A pipeline that would get too few micro-batches to run gets none."""
        pipeline, chip = Kind(pace_ms=1, fill_ms=4, count=1, at_least=4), kind(1)
        assert deal([pipeline, chip], 3) == ((), ((3, 1),))


kinds = st.lists(
    st.builds(kind, st.integers(1, 9), st.integers(1, 20), st.integers(1, 2), st.integers(1, 9)), min_size=1, max_size=3
)


class TestLaws:
    @pytest.mark.slow
    @law
    @given(kinds, st.integers(1, 10))
    def test_exact(self, listed: list[Kind], microbatches: int) -> None:
        """All micro-batches are dealt, and no deal ends earlier."""
        singles = [k for k in listed for _ in range(k.count)]
        deals = itertools.product(*(range(min(k.at_most, microbatches) + 1) for k in singles))
        ends = [
            max(k.finish_ms(m) for k, m in zip(singles, takes, strict=True))
            for takes in deals
            if sum(takes) == microbatches
        ]
        found = deal(listed, microbatches)
        if found is None:
            assert not ends
            return
        assert sum(m * n for shares in found for m, n in shares) == microbatches
        assert finish(listed, found) <= min(ends) + 1e-6

    @law
    @given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 40))
    def test_what_is_dealt_is_allowed(self, depth: int, count: int, batch: int) -> None:
        """Every share of a zero-bubble pipeline is one that torch can deal into rounds."""
        pipeline = Kind(pace_ms=1, fill_ms=depth, count=count, at_least=depth, round_of=depth)
        dealt = deal([pipeline, kind(7, 7)], batch)
        for m, _ in dealt[0] if dealt else ():
            assert m >= depth
            assert m % (m // depth) == 0

    @law
    @given(kinds, st.integers(1, 30))
    def test_least_time_is_enough(self, listed: list[Kind], microbatches: int) -> None:
        """By the least time all are done, and a moment earlier not."""
        if sum(k.count * k.at_most for k in listed) < microbatches:
            return
        time_ms = least_time(listed, microbatches)
        assert sum(k.count * k.finished(time_ms) for k in listed) >= microbatches
        assert sum(k.count * k.finished(time_ms - 1e-3) for k in listed) < microbatches
