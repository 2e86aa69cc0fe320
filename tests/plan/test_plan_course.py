"""What a whole job takes by a plan."""

import datetime
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.job import Job, Objective
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.course import Course, course, course_line, duration_text, money_text

NOW = datetime.datetime(2026, 12, 1, 8, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def plan(build: Any) -> Plan:
    """Plan the tiny model on real chips of one dollar an hour, 100 s a step."""
    chips = build.chip_class(tflops=0.002, emulated=False)
    made = plan_job(build.job(), build.shape(), [chips], ())[0]
    assert made.prediction is not None
    return replace(made, prediction=replace(made.prediction, step_ms=1e5, cost_per_trillion_tokens=1e9))


def told(plan: Plan, job: Job, seconds_left: float | None = None) -> Course:
    """Work out the course of 10,000 steps."""
    return course(plan, replace(job, train=replace(job.train, steps=10_000)), NOW, seconds_left)


class TestCourse:
    def test_line(self, plan: Plan, build: Any) -> None:
        """It says how long, until when and for how much."""
        line = course_line(told(plan, build.job()))
        assert line == "10,000 steps: 11.6 days (ends about 2026-12-12), $5,120"

    @pytest.mark.parametrize(("left", "late"), [(2e6, ""), (5e5, "; too late")])
    def test_deadline(self, plan: Plan, build: Any, left: float, late: str) -> None:
        """A deadline is named, and that it is missed."""
        job = replace(build.job(), objective=Objective(goal="deadline", deadline="2026-12-24"))
        found = told(plan, job, left)
        assert found.in_time is (not late)
        assert f"(ends about 2026-12-12; deadline 2026-12-24{late})" in course_line(found)

    def test_time_limit(self, plan: Plan, build: Any) -> None:
        """A time limit is named when it is exceeded, and only then."""
        short, long = (told(plan, replace(build.job(), time_limit_s=limit)) for limit in (144_000.0, 2e6))
        assert "longer than time_limit, 1.7 days" in course_line(short)
        assert "time_limit" not in course_line(long)

    def test_emulated(self, plan: Plan, build: Any) -> None:
        """A time of emulated chips is marked and has no price."""
        line = course_line(told(replace(plan, emulated=True), build.job()))
        assert line.startswith("10,000 steps: ~11.6 days")
        assert "$" not in line

    def test_beyond_the_calendar(self, plan: Plan, build: Any) -> None:
        """A job that ends after the calendar does has no end, and no error."""
        assert plan.prediction is not None
        endless = replace(plan, prediction=replace(plan.prediction, step_ms=1e15))
        assert "ends about" not in course_line(told(endless, build.job()))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (duration_text(0.05), "50 ms"),
            (duration_text(89.0), "89.0 s"),
            (duration_text(5400.0), "1.5 h"),
            (money_text(12.3), "$12"),
            (money_text(36_120), "$36.1 k"),
            (money_text(2.5e6), "$2.5 M"),
        ],
    )
    def test_units(self, text: str, expected: str) -> None:
        """Durations and sums have a unit that suits them."""
        assert text == expected
