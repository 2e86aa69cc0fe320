"""The compiled passage through a pipeline against the walk that lists every piece of work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.plan import SCHEDULES
from argosy.plan.timing.passes import passage
from argosy.plan.timing.walk import Pipeline, walk

law = settings(derandomize=True, deadline=None, max_examples=300)
work = st.floats(0.01, 9)
post = st.tuples(st.sampled_from([0.0, 0.3, 7.0]), st.sampled_from([0.0, 0.5, 11.0]))


@st.composite
def pipelines(draw: st.DrawFn, microbatches_max: int = 60) -> Pipeline:
    """Draw a pipeline of any schedule that may run, its stages and wires uneven."""
    schedule = draw(st.sampled_from(SCHEDULES))
    virtual = draw(st.integers(2, 3)) if schedule == "interleaved" else 1
    places = draw(st.integers(2 if virtual > 1 else 1, 6))
    stages = places * virtual
    some = draw(st.integers(places, microbatches_max))
    weights = work if schedule == "zero-bubble" else st.just(0.0)
    return Pipeline(
        schedule=schedule,
        microbatches=max(places, some - some % places) if virtual > 1 else some,
        works_ms=tuple(draw(st.lists(st.tuples(work, work, weights), min_size=stages, max_size=stages))),
        posts_ms=tuple(draw(st.lists(post, min_size=stages - 1, max_size=stages - 1))),
        virtual_stages=virtual,
    )


def uneven(schedule: str, places: int, microbatches: int, sending_ms: float, virtual: int = 1) -> Pipeline:
    """Make a pipeline whose stages and wires all differ."""
    stages = places * virtual
    weight = 1.0 if schedule == "zero-bubble" else 0.0
    return Pipeline(
        schedule=schedule,
        microbatches=microbatches,
        works_ms=tuple((1 + 0.37 * i % 0.9, 2.1 + 0.11 * i, weight) for i in range(stages)),
        posts_ms=tuple((sending_ms, 0.83 * i) for i in range(stages - 1)),
        virtual_stages=virtual,
    )


def check(pipeline: Pipeline, begins_ms: tuple[float, ...]) -> None:
    """Compare both, to rounding."""
    walked, quick = walk(pipeline, begins_ms), passage(pipeline, begins_ms)
    assert quick.ends_ms == pytest.approx(walked.ends_ms, rel=1e-9)
    assert quick.last_ms == pytest.approx(walked.last_ms, rel=1e-9)


class TestLikeTheWalk:
    @pytest.mark.slow
    @law
    @given(pipelines(), st.lists(st.floats(0, 20), min_size=6, max_size=6))
    def test_any_pipeline(self, pipeline: Pipeline, begins: list[float]) -> None:
        """Whatever the schedule, stages, wires and clocks at first, all places end when the walk says, to rounding."""
        check(pipeline, tuple(begins[: pipeline.places]))

    @pytest.mark.slow
    @pytest.mark.parametrize("schedule", SCHEDULES)
    @pytest.mark.parametrize("sending_ms", [0.0, 0.7, 5.0])
    def test_many_microbatches(self, schedule: str, sending_ms: float) -> None:
        """Periods added at once give what thousands of micro-batches give one by one."""
        virtual = 2 if schedule == "interleaved" else 1
        check(uneven(schedule, 8 // virtual, 5000, sending_ms, virtual), (0.0,) * (8 // virtual))


class TestBounded:
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_billion(self, schedule: str) -> None:
        """A billion micro-batches are timed like a few: the slowest place's time for each."""
        virtual = 2 if schedule == "interleaved" else 1
        works = ((1.0, 2.0, 0.0), (1.5, 2.5, 0.0)) * virtual
        posts = ((0.1, 0.2),) * (len(works) - 1)
        pipeline = Pipeline(
            schedule=schedule, microbatches=10**9, works_ms=works, posts_ms=posts, virtual_stages=virtual
        )
        assert max(passage(pipeline, (0.0, 0.0)).ends_ms) == pytest.approx(virtual * 4e9, rel=0.2)
