"""How many replicas of which templates, against trying every count."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.plan.pipelines.layouts import Layout, Run
from argosy.plan.pipelines.shares import least_time
from argosy.plan.pipelines.templates import Template, make_template
from argosy.plan.search.drafts import kind_of
from argosy.plan.search.mixing import mixed


def template(build: Any, places: int, tp: int = 1, tflops: float = 0.002) -> Template:
    """Build a pipeline of so many places on one class."""
    runs = (Run(chip_class=build.chip_class(tflops=tflops), places=places, tp=tp),)
    made = make_template(build.setting(), Layout(runs=runs, microbatches=places), ())
    assert made is not None
    return made


def best_ms(pool: list[Template], chips: int, batch: int) -> float:
    """Try every count of each template and give the least time."""
    sizes = [sum(one.layout.chips.values()) for one in pool]
    found = [float("inf")]
    for counts in itertools.product(*(range(chips // size + 1) for size in sizes)):
        if any(counts) and sum(n * size for n, size in zip(counts, sizes, strict=True)) <= chips:
            found.append(least_time([kind_of(t, n) for t, n in zip(pool, counts, strict=True) if n], batch))
    return min(found)


class TestMixed:
    def test_leftover_chips_get_another_template(self, build: Any) -> None:
        """What pipelines of two leave of five chips is used by one of one."""
        pool = [template(build, 2), template(build, 1, tflops=0.0005)]
        picked = mixed(pool, {"north/fast": 5}, 40, 100.0)
        assert picked is not None
        assert {len(one.cut.ends): count for one, count in picked} == {2: 2, 1: 1}

    def test_nothing_to_choose_from(self) -> None:
        """Without templates there is no mix."""
        assert mixed([], {"north/fast": 4}, 8, 1.0) is None

    @pytest.mark.slow
    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(st.integers(3, 9), st.sampled_from([8, 30, 64]))
    def test_near_the_best(self, build: Any, chips: int, batch: int) -> None:
        """The counts found take no more than a few percent longer than the best of all."""
        pool = [template(build, places) for places in (1, 2, 3, 4)]
        picked = mixed(pool, {"north/fast": chips}, batch, 500.0)
        assert picked is not None
        assert least_time([kind_of(t, n) for t, n in picked], batch) <= 1.05 * best_ms(pool, chips, batch)
