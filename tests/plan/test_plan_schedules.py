"""Orders of forwards and backwards: by hand, against the published bubbles, and by law."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import SCHEDULES, TRAINER_SCHEDULES
from argosy.plan.timing.passes import passage
from argosy.plan.timing.schedules import check_schedule, held_microbatches, place_order
from argosy.plan.timing.walk import Pipeline, walk

law = settings(derandomize=True, deadline=None, max_examples=80)
whole = st.integers(1, 9)


def text(schedule: str, place: int, places: int, microbatches: int, virtual: int = 1) -> str:
    """Write an order as words: kind, stage, dot, micro-batch."""
    order = place_order(schedule, place, places, microbatches, virtual)
    return " ".join(f"{kind}{stage}.{microbatch}" for kind, stage, microbatch in order)


def even(
    schedule: str,
    places: int,
    microbatches: int,
    times: tuple[float, float, float] = (1, 1, 1),
    virtual: int = 1,
    post: tuple[float, float] = (0, 0),
) -> Pipeline:
    """Build a pipeline of like stages; times: of one place's forward, backward and weights' part."""
    forward, backward, weights = (time / virtual for time in times)
    apart = schedule == "zero-bubble"
    works = (forward, backward if apart else backward + weights, weights if apart else 0.0)
    stages = places * virtual
    return Pipeline(
        schedule=schedule,
        microbatches=microbatches,
        works_ms=(works,) * stages,
        posts_ms=(post,) * (stages - 1),
        virtual_stages=virtual,
    )


def step_ms(pipeline: Pipeline) -> float:
    """Time a pipeline from idle clocks."""
    return max(passage(pipeline, (0.0,) * pipeline.places).ends_ms)


@st.composite
def counts(draw: st.DrawFn) -> tuple[str, int, int, int]:
    """Draw a schedule, places, micro-batches and virtual stages that may run."""
    schedule = draw(st.sampled_from(SCHEDULES))
    virtual = draw(st.integers(2, 4)) if schedule == "interleaved" else 1
    places = draw(st.integers(2 if virtual > 1 else 1, 6))
    if virtual > 1:
        return schedule, places, places * draw(st.integers(1, 5)), virtual
    return schedule, places, draw(st.integers(1 if schedule == "gpipe" else places, 20)), virtual


class TestOrders:
    def test_1f1b(self) -> None:
        """1F1B warms up by the distance from the end, then alternates, then drains."""
        assert text("1f1b", 1, 3, 4) == "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3"

    def test_gpipe(self) -> None:
        """GPipe runs all forwards, then all backwards, both in micro-batch order."""
        assert text("gpipe", 1, 3, 2) == "F1.0 F1.1 B1.0 B1.1"

    def test_interleaved(self) -> None:
        """Interleaved takes as many micro-batches as places through each stage in turn, backward from the last."""
        assert text("interleaved", 1, 2, 2, 2) == "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1"

    def test_zero_bubble(self) -> None:
        """ZB-H1 lets as many weights' gradients wait as places come before."""
        assert text("zero-bubble", 1, 2, 3) == "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2"
        assert text("zero-bubble", 0, 2, 2) == "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1"

    def test_the_trainer_runs_some(self) -> None:
        """What the trainer runs is known to the timeline."""
        assert set(TRAINER_SCHEDULES) <= set(SCHEDULES)


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (("zigzag", 1, 1), "no schedule 'zigzag'; there are: 1f1b, gpipe, interleaved, zero-bubble"),
            (("1f1b", 3, 2), "1f1b can't run 2 micro-batches through 3 stages.*use gpipe"),
            (("zero-bubble", 3, 2), "zero-bubble can't run 2 micro-batches through 3 stages"),
            (("gpipe", 3, 0), "0 micro-batches does nothing"),
            (("1f1b", 2, 4, 2), "1f1b with 2 virtual stages; it has 1, interleaved has more"),
            (("interleaved", 2, 4), "1 virtual stages on each of 2 places; it needs 2 or more of both; use 1f1b"),
            (("interleaved", 1, 4, 2), "2 virtual stages on each of 1 places"),
            (("interleaved", 4, 10, 2), "10 is no multiple of 4; nearest: 8 or 12; or use 1f1b"),
            (("interleaved", 4, 3, 2), "3 is no multiple of 4; nearest: 4;"),
        ],
        ids=str,
    )
    def test_named(self, given: tuple[str, int, int], said: str) -> None:
        """What can't run is refused with what was got, what is allowed and what runs instead."""
        with pytest.raises(BadInputError, match=said):
            check_schedule(*given)


class TestOrderLaws:
    @law
    @given(counts())
    def test_each_piece_once(self, drawn: tuple[str, int, int, int]) -> None:
        """Every place runs each kind of work once for each of its stages and micro-batches, in micro-batch order."""
        schedule, places, microbatches, virtual = drawn
        kinds = "FBW" if schedule == "zero-bubble" else "FB"
        for place in range(places):
            order = place_order(schedule, place, places, microbatches, virtual)
            stages = range(place, places * virtual, places)
            assert sorted(order) == sorted(itertools.product(kinds, stages, range(microbatches)))
            for kind, stage in itertools.product(kinds, stages):
                assert [m for k, s, m in order if (k, s) == (kind, stage)] == list(range(microbatches))

    @law
    @given(counts())
    def test_own_work_in_order(self, drawn: tuple[str, int, int, int]) -> None:
        """Forward comes before backward before the weights' gradients, for each stage and micro-batch."""
        schedule, places, microbatches, virtual = drawn
        for place in range(places):
            seen: dict[tuple[int, int], str] = {}
            for kind, stage, microbatch in place_order(schedule, place, places, microbatches, virtual):
                seen[stage, microbatch] = seen.get((stage, microbatch), "") + kind
            assert set(seen.values()) == {"FBW" if schedule == "zero-bubble" else "FB"}

    @law
    @given(counts())
    def test_nobody_waits_for_ever(self, drawn: tuple[str, int, int, int]) -> None:
        """All places get through: no order waits for what comes after it."""
        schedule, places, microbatches, virtual = drawn
        pipeline = even(schedule, places, microbatches, virtual=virtual)
        assert len(walk(pipeline, (0.0,) * places).work) == sum(
            len(place_order(schedule, place, places, microbatches, virtual)) for place in range(places)
        )

    @law
    @given(counts())
    def test_held(self, drawn: tuple[str, int, int, int]) -> None:
        """What a place holds at most is the largest number of forwards whose last work is not done."""
        schedule, places, microbatches, virtual = drawn
        frees = "W" if schedule == "zero-bubble" else "B"
        for place in range(places):
            order = place_order(schedule, place, places, microbatches, virtual)
            change = itertools.accumulate((kind == "F") - (kind == frees) for kind, _, _ in order)
            assert held_microbatches(schedule, place, places, microbatches, virtual) == max(change)


class TestBubbles:
    """Idle time of even pipelines over free wires, against what the papers give."""

    @law
    @given(st.integers(2, 6), st.integers(2, 4), st.integers(1, 6), whole, whole)
    def test_interleaved(self, p: int, v: int, groups: int, forward: int, backward: int) -> None:
        """Interleaving divides the bubble by the virtual stages: (p-1) / (v m) of the work (arXiv 2104.04473)."""
        m = p * groups
        work_ms = m * (forward + backward)
        bubble_ms = step_ms(even("interleaved", p, m, (forward, backward, 0), virtual=v)) - work_ms
        assert bubble_ms / work_ms == pytest.approx((p - 1) / (v * m))

    @law
    @given(st.integers(1, 8), st.integers(0, 12), whole)
    def test_zero_bubble(self, p: int, more: int, ms: int) -> None:
        """With like parts, ZB-H1's bubble is a third of 1F1B's: (p-1) (F + B - W) (arXiv 2401.10241)."""
        m = p + more
        assert step_ms(even("zero-bubble", p, m, (ms, ms, ms))) == pytest.approx(3 * ms * m + (p - 1) * ms)

    @law
    @given(st.integers(1, 8), st.integers(0, 12), st.tuples(whole, whole, whole), st.sampled_from([0.0, 0.5, 3.0]))
    def test_zero_bubble_is_no_slower(self, p: int, more: int, times: tuple[int, int, int], delay: float) -> None:
        """Of like stages, a zero-bubble pipeline takes no longer than 1F1B's."""
        zero, usual = (even(s, p, p + more, times, post=(0, delay)) for s in ("zero-bubble", "1f1b"))
        assert step_ms(zero) <= step_ms(usual) + 1e-9

    @law
    @given(st.lists(st.tuples(whole, whole, whole), min_size=1, max_size=6), st.integers(0, 9), whole)
    def test_zero_bubble_lets_nobody_wait_longer(
        self, times: list[tuple[int, int, int]], more: int, delay: int
    ) -> None:
        """Whatever the stages, every forward and backward begins no later than in 1F1B."""
        p = len(times)
        begun = {}
        for schedule in ("zero-bubble", "1f1b"):
            parts = [(f, b, w) if schedule == "zero-bubble" else (f, b + w, 0) for f, b, w in times]
            pipeline = Pipeline(
                schedule=schedule,
                microbatches=p + more,
                works_ms=tuple(parts),
                posts_ms=((0.5, delay),) * (p - 1),
            )
            work = walk(pipeline, (0.0,) * p).work
            begun[schedule] = {(kind, s, m): start for kind, s, m, start, _ in work if kind != "W"}
        assert all(begun["zero-bubble"][key] <= start + 1e-9 for key, start in begun["1f1b"].items())


class TestFloors:
    @law
    @given(counts(), st.data())
    def test_never_faster_than_the_slowest_place(self, drawn: tuple[str, int, int, int], data: st.DataObject) -> None:
        """No step is shorter than a place's own work, with the way to it and back from it around."""
        schedule, places, microbatches, virtual = drawn
        stages = places * virtual
        weights = whole if schedule == "zero-bubble" else st.just(0)
        works = data.draw(st.lists(st.tuples(whole, whole, weights), min_size=stages, max_size=stages))
        pipeline = Pipeline(
            schedule=schedule,
            microbatches=microbatches,
            works_ms=tuple(works),
            posts_ms=((0.0, 1.0),) * (stages - 1),
            virtual_stages=virtual,
        )
        end_ms = step_ms(pipeline)
        for p in range(places):
            fill, drain = (sum(work[kind] + 1 for work in works[:p]) for kind in (0, 1))
            # With zero-bubble the weights' gradients may follow the last backward, and nobody waits for them.
            assert end_ms >= fill + microbatches * sum(map(sum, works[p::places])) - 1e-9
            assert end_ms >= fill + microbatches * sum(f + b for f, b, _ in works[p::places]) + drain - 1e-9
        assert end_ms >= sum(f + b + 2 for f, b, _ in works) - 2 - 1e-9
