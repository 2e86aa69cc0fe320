"""A plan found for one goal is a candidate for all, and chips that a job may not have never make it cheaper."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import NeverFitsError
from argosy.contracts.job import ChipsSpec, Job, Objective
from argosy.contracts.plan import Prediction
from argosy.plan.planner import plan_job
from argosy.plan.search.fit import choose_parts
from argosy.plan.search.resizing import counts_near
from argosy.plan.telling.explain import predicted

law = settings(derandomize=True, deadline=None, max_examples=5)
# TFLOPS, nodes, GB, dollars an hour and watts of each class.
fleets = st.lists(
    st.tuples(
        st.sampled_from([0.001, 0.002, 0.003]),
        st.integers(1, 4),
        st.sampled_from([0.004, 0.006, 1.0]),
        st.sampled_from([0.5, 1.0, 3.0]),
        st.sampled_from([100.0, 400.0]),
    ),
    min_size=1,
    max_size=3,
)
CLOSE = 1 + 1e-9


def classes_of(build: Any, fleet: list[Any]) -> list[Any]:
    """Build classes that have a price and a rated power."""
    made = []
    for index, (tflops, nodes, memory_gb, price, tdp_w) in enumerate(fleet):
        one = build.chip_class(f"{('north', 'south', 'north')[index]}/chip{index}", tflops, memory_gb, nodes=nodes)
        made.append(replace(one, chip=replace(one.chip, price_per_hour=price, tdp_w=tdp_w)))
    return made


def told(build: Any, job: Job, classes: list[Any]) -> Prediction | None:
    """Predict the chosen plan; None where nothing fits."""
    try:
        return predicted(plan_job(job, build.shape(), classes, (build.link(),))[0])
    except NeverFitsError:
        return None


def dearness(found: Prediction | None) -> float:
    """Give the price of a token; infinite without a plan."""
    return float("inf") if found is None or found.cost_per_trillion_tokens is None else found.cost_per_trillion_tokens


class TestGoals:
    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([6, 24]), st.sampled_from(["", "power", "chips"]))
    def test_none_is_beaten_on_its_own_ground(self, build: Any, fleet: list[Any], batch: int, cap: str) -> None:
        """The fastest is no slower than the cheapest, nor the cheapest dearer than the fastest, under any cap."""
        classes = classes_of(build, fleet)
        chips = sum(one.chips for one in classes)
        power_kw = sum(one.chips * one.chip.tdp_w for one in classes) * 0.6e-3 if cap == "power" else None
        job = build.job(global_batch_size=batch)
        job = replace(job, chips=ChipsSpec(maximum=max(1, chips * 2 // 3) if cap == "chips" else None))
        fastest = told(build, replace(job, objective=Objective(power_kw=power_kw)), classes)
        cheap = replace(job, objective=Objective(goal="cheapest", power_kw=power_kw))
        if fastest is None:
            assert told(build, cheap, classes) is None
            return
        for slower in (1.1, None):
            limit_s = None if slower is None else slower * CLOSE * fastest.step_ms * job.train.steps / 1e3
            cheapest = told(build, replace(cheap, time_limit_s=limit_s), classes)
            assert cheapest is not None
            assert fastest.step_ms <= cheapest.step_ms * CLOSE
            assert dearness(cheapest) <= dearness(fastest) * CLOSE
            assert limit_s is None or cheapest.step_ms * job.train.steps / 1e3 <= limit_s

    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([6, 24]), st.sampled_from([1.2, 2.0]), st.sampled_from([1, 2, 3]))
    def test_fewer_chips_are_not_cheaper(
        self, build: Any, fleet: list[Any], batch: int, slower: float, quarters: int
    ) -> None:
        """Free to choose, the cheapest in time is no dearer than with a chips.max."""
        classes = classes_of(build, fleet)
        job = build.job(global_batch_size=batch)
        fastest = told(build, job, classes)
        if fastest is None:
            return
        limit_s = slower * fastest.step_ms * job.train.steps / 1e3
        cheap = replace(job, objective=Objective(goal="cheapest"), time_limit_s=limit_s)
        few = replace(cheap, chips=ChipsSpec(maximum=max(1, sum(one.chips for one in classes) * quarters // 4)))
        restricted = told(build, few, classes)
        if restricted is not None and restricted.step_ms <= slower * fastest.step_ms:
            assert dearness(told(build, cheap, classes)) <= dearness(restricted) * 1.01


class TestParts:
    def test_are_the_same_for_every_goal(self, build: Any) -> None:
        """Under a cap the same numbers of chips are tried whatever is asked for, each class filled first in turn."""
        kinds = [(0.003, 3, 1.0, 3.0, 400.0), (0.002, 3, 1.0, 0.5, 300.0), (0.001, 3, 1.0, 1.0, 50.0)]
        classes, job = classes_of(build, kinds), build.job()
        for caps in ({"chips": ChipsSpec(maximum=14)}, {"objective": Objective(power_kw=3.5)}):
            asked = replace(job, **caps)
            tried = [
                {tuple(part.chips for part in parts) for parts in choose_parts(goal, classes)}
                for goal in (asked, replace(asked, objective=replace(asked.objective, goal="cheapest")))
            ]
            assert tried[0] == tried[1]
            assert len(tried[0]) >= 3


class TestCounts:
    def test_lie_near(self) -> None:
        """Next to a number of nodes are those one off, the next rungs of the ladder, and none."""
        assert counts_near(32, 32) == [0, 16, 24, 31]
        assert counts_near(12, 32) == [0, 7, 8, 11, 13, 16, 24]
        assert counts_near(0, 4) == [1, 2]
