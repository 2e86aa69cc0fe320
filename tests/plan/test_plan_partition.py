"""The exact partition against trying every cut."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.partition import StageCosts, fullest, partition

law = settings(derandomize=True, deadline=None, max_examples=80)


def costs(layer_ms: list[float], layer_gb: list[float] | None = None, **more: float) -> StageCosts:
    """Build a stage's costs; layers take 1 GB unless told."""
    sizes = layer_gb or [1.0] * len(layer_ms)
    return StageCosts(layer_ms=np.array(layer_ms, float), layer_gb=np.array(sizes, float), **more)


def cuts(layers: int, stages: int) -> list[tuple[int, ...]]:
    """List every way to cut layers into stages of at least one."""
    return [(*inner, layers) for inner in itertools.combinations(range(1, layers), stages - 1)]


def slowest(stages: list[StageCosts], ends: tuple[int, ...]) -> float:
    """Time the slowest stage of a cut; infinite if one does not fit."""
    worst, start = 0.0, 0
    for stage, end in zip(stages, ends, strict=True):
        if stage.layer_gb[start:end].sum() + stage.fixed_gb > stage.limit_gb:
            return float("inf")
        worst, start = max(worst, stage.layer_ms[start:end].sum() + stage.fixed_ms), end
    return float(worst)


class TestPartition:
    def test_even(self) -> None:
        """Equal layers on equal stages are cut evenly."""
        assert partition([costs([1] * 8)] * 4) == (2, 4, 6, 8)

    def test_speed(self) -> None:
        """A stage that is twice as fast gets twice the layers."""
        assert partition([costs([1] * 9), costs([2] * 9)]) == (6, 9)

    def test_ends_weigh(self) -> None:
        """Embedding and head count as work of the first and last stage."""
        assert partition([costs([1] * 8, fixed_ms=2), costs([1] * 8, fixed_ms=4)]) == (5, 8)

    def test_memory_binds(self) -> None:
        """A fast stage takes no more layers than fit."""
        assert partition([costs([1] * 9, limit_gb=4), costs([2] * 9)]) == (4, 9)

    def test_earlier_stages_hold_less(self) -> None:
        """Among equal cuts earlier stages hold fewer layers."""
        assert partition([costs([1] * 5)] * 3) == (1, 3, 5)

    @pytest.mark.parametrize("stages", [[costs([1] * 3)] * 4, [costs([1] * 4, limit_gb=1)] * 3])
    def test_none(self, stages: list[StageCosts]) -> None:
        """More stages than layers, or too little memory, have no cut."""
        assert partition(stages) is None


numbers = st.lists(st.integers(0, 9), min_size=6, max_size=6)
stage_costs = st.builds(
    costs,
    numbers,
    numbers,
    fixed_ms=st.integers(0, 9),
    fixed_gb=st.integers(0, 5),
    limit_gb=st.sampled_from([8.0, 15.0, float("inf")]),
)


class TestLaws:
    @law
    @given(st.lists(stage_costs, min_size=1, max_size=5))
    def test_exact(self, stages: list[StageCosts]) -> None:
        """No cut is faster than the one found, and none fits where none is found."""
        best = min(slowest(stages, ends) for ends in cuts(6, len(stages)))
        found = partition(stages)
        assert (slowest(stages, found) if found else float("inf")) == pytest.approx(best)

    @law
    @given(st.lists(stage_costs, min_size=1, max_size=4))
    def test_fullest(self, stages: list[StageCosts]) -> None:
        """The least memory of the fullest stage is that of the best of all cuts."""
        needs = [
            max(s.layer_gb[a:b].sum() + s.fixed_gb for s, a, b in zip(stages, (0, *ends[:-1]), ends, strict=True))
            for ends in ((*inner, 6) for inner in itertools.combinations(range(1, 6), len(stages) - 1))
        ]
        assert fullest(stages) == pytest.approx(min(needs))
