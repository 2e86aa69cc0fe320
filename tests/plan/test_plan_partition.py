"""The exact partition against trying every cut."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.pipelines.partition import Cut, StageCosts, fullest, partition, used_gb

law = settings(derandomize=True, deadline=None, max_examples=80)


def before(values: Any) -> Any:
    """Give the sums of the values before each place."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, float))])


def costs(*places: dict[str, Any], partly: bool = True) -> StageCosts:
    """Build the costs of stages. Each says ms of every layer, by way too; kept and state in GB; the rest by name."""
    ways = [[place["ms"], *place.get("again", ())] for place in places]
    kept = [place.get("kept") or [[0.0] * len(place["ms"])] * len(row) for place, row in zip(places, ways, strict=True)]
    return StageCosts(
        ms=np.stack([[before(row) for row in rows] for rows in ways]),
        kept_gb=np.stack([[before(row) for row in rows] for rows in kept]),
        state_gb=np.stack([before(place.get("state") or [1.0] * len(place["ms"])) for place in places]),
        kinds=np.arange(len(places)),
        held=np.array([float(place.get("held", 1.0)) for place in places]),
        limit_gb=np.array([float(place.get("limit", np.inf)) for place in places]),
        fixed_ms=np.array([float(place.get("fixed_ms", 0.0)) for place in places]),
        fixed_gb=np.array([[float(place.get("fixed_gb", 0.0))] * len(ways[0]) for place in places]),
        partly=partly,
    )


def ends(*places: dict[str, Any]) -> tuple[int, ...] | None:
    """Cut and give the ends."""
    cut = partition(costs(*places))
    return cut.ends if cut else None


class TestPartition:
    def test_even(self) -> None:
        """Equal layers on equal stages are cut evenly."""
        assert ends(*[{"ms": [1] * 8}] * 4) == (2, 4, 6, 8)

    def test_speed(self) -> None:
        """A stage that is twice as fast gets twice the layers."""
        assert ends({"ms": [1] * 9}, {"ms": [2] * 9}) == (6, 9)

    def test_ends_weigh(self) -> None:
        """Embedding and head count as work of the first and last stage."""
        assert ends({"ms": [1] * 8, "fixed_ms": 2}, {"ms": [1] * 8, "fixed_ms": 4}) == (5, 8)

    def test_memory_binds(self) -> None:
        """A fast stage takes no more layers than fit."""
        assert ends({"ms": [1] * 9, "limit": 4}, {"ms": [2] * 9}) == (4, 9)

    def test_earlier_stages_hold_less(self) -> None:
        """Among equal cuts earlier stages hold fewer layers."""
        assert ends(*[{"ms": [1] * 5}] * 3) == (1, 3, 5)

    @pytest.mark.parametrize("places", [[{"ms": [1] * 3}] * 4, [{"ms": [1] * 4, "limit": 1}] * 3])
    def test_none(self, places: list[dict[str, Any]]) -> None:
        """More stages than layers, or too little memory, have no cut."""
        assert ends(*places) is None

    def test_recomputes_as_little_as_fits(self) -> None:
        """A stage that keeps too much recomputes its first layers, as many as must be; the next none."""
        place = {"ms": [3] * 4, "again": [[4] * 4], "kept": [[5] * 4, [1] * 4], "limit": 20}
        cut = partition(costs({**place, "held": 2}, place))
        assert cut == Cut(ends=(2, 4), ways=(1, 0), counts=(1, 0))
        assert used_gb(costs({**place, "held": 2}, place), cut, 0) == 14

    def test_all_or_nothing(self) -> None:
        """Where layers can't be recomputed one by one, a whole stage is."""
        place = {"ms": [3] * 4, "again": [[4] * 4], "kept": [[5] * 4, [1] * 4], "limit": 20, "held": 2}
        cut = partition(costs(place, place, partly=False))
        assert cut == Cut(ends=(2, 4), ways=(1, 1), counts=(2, 2))


numbers = st.lists(st.integers(0, 9), min_size=6, max_size=6)
limits = st.sampled_from([8.0, 15.0, 40.0, float("inf")])


@st.composite
def places(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a stage with a plain way and one that keeps half and takes as much again."""
    ms, kept = draw(numbers), draw(numbers)
    return {
        "ms": ms,
        "again": [[2 * value for value in ms]],
        "kept": [kept, [value / 2 for value in kept]],
        "state": draw(numbers),
        "held": draw(st.integers(1, 3)),
        "limit": draw(limits),
        "fixed_ms": draw(st.integers(0, 9)),
        "fixed_gb": draw(st.integers(0, 5)),
    }


def least_ms(place: dict[str, Any], start: int, end: int, partly: bool) -> float:
    """Try every number of recomputed layers of a stage and give the least time that fits."""
    found = [float("inf")]
    for count in range(end - start + 1) if partly else (0, end - start):
        middle = start + count
        kept = sum(place["kept"][1][start:middle]) + sum(place["kept"][0][middle:end])
        if place["fixed_gb"] + sum(place["state"][start:end]) + place["held"] * kept <= place["limit"]:
            found.append(place["fixed_ms"] + sum(place["ms"][start:end]) + sum(place["ms"][start:middle]))
    return min(found)


def cuts(layers: int, stages: int) -> list[tuple[int, ...]]:
    """List every way to cut layers into stages of at least one."""
    return [(*inner, layers) for inner in itertools.combinations(range(1, layers), stages - 1)]


class TestLaws:
    @law
    @given(st.lists(places(), min_size=1, max_size=5), st.booleans())
    def test_exact(self, stages: list[dict[str, Any]], partly: bool) -> None:
        """No cut is faster than the one found, and none fits where none is found."""

        def slowest(ends: tuple[int, ...]) -> float:
            return max(least_ms(p, a, b, partly) for p, a, b in zip(stages, (0, *ends[:-1]), ends, strict=True))

        found = partition(costs(*stages, partly=partly))
        best = min(slowest(ends) for ends in cuts(6, len(stages)))
        assert (slowest(found.ends) if found else float("inf")) == pytest.approx(best)

    @law
    @given(st.lists(places(), min_size=1, max_size=4))
    def test_fits(self, stages: list[dict[str, Any]]) -> None:
        """No stage of a cut holds more than its limit."""
        table = costs(*stages)
        cut = partition(table)
        if cut is not None:
            assert all(used_gb(table, cut, s) <= table.limit_gb[s] for s in range(len(stages)))

    @law
    @given(st.lists(places(), min_size=1, max_size=4))
    def test_fullest(self, stages: list[dict[str, Any]]) -> None:
        """The least memory of the fullest stage is that of the best of all cuts, all recomputed."""

        def need(place: dict[str, Any], start: int, end: int) -> float:
            kept = sum(place["kept"][1][start:end])
            return float(place["fixed_gb"] + sum(place["state"][start:end]) + place["held"] * kept)

        needs = [
            max(need(p, a, b) for p, a, b in zip(stages, (0, *ends[:-1]), ends, strict=True))
            for ends in cuts(6, len(stages))
        ]
        assert fullest(costs(*stages)) == pytest.approx(min(needs))
