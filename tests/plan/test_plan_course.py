"""What a whole job takes by a plan."""

import datetime
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.job import Job, Objective
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.course import Course, course, course_line, duration_text, late_lines, money_text

NOW = datetime.datetime(2026, 12, 1, 8, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def plan(build: Any) -> Plan:
    """Plan the tiny model on real chips of one dollar an hour, 100 s a step."""
    chips = build.chip_class(tflops=0.002, emulated=False)
    made = plan_job(build.job(), build.shape(), [chips], ())[0]
    assert made.prediction is not None
    return replace(made, prediction=replace(made.prediction, step_ms=1e5, cost_per_trillion_tokens=1e9, gap=None))


def told(plan: Plan, job: Job, seconds_left: float | None = None) -> Course:
    """Work out the course of 10,000 steps."""
    return course(plan, replace(job, train=replace(job.train, steps=10_000)), NOW, seconds_left)


class TestCourse:
    def test_line(self, plan: Plan, build: Any) -> None:
        """It says how long, until when and for how much."""
        line = course_line(told(plan, build.job()))
        assert line == "10,000 steps: 11.6 days (ends about 2026-12-12), $5,120"

    @pytest.mark.parametrize(("left", "late"), [(2e6, False), (5e5, True)])
    def test_deadline(self, plan: Plan, build: Any, left: float, late: bool) -> None:
        """A deadline is named, and in a line of its own that it is missed."""
        job = replace(build.job(), objective=Objective(goal="deadline", deadline="2026-12-24"))
        found = told(plan, job, left)
        assert found.in_time is (not late)
        assert "(ends about 2026-12-12; deadline 2026-12-24)" in course_line(found)
        lines = late_lines(found, plan)
        assert len(lines) == late
        assert all(line.startswith("too late: the deadline 2026-12-24 leaves 5.8 days") for line in lines)

    def test_time_limit(self, plan: Plan, build: Any) -> None:
        """A time limit that is missed has a line: by how much, and what would be in time; one that is kept has none."""
        short, long = (told(plan, replace(build.job(), time_limit_s=limit)) for limit in (144_000.0, 2e6))
        (line,) = late_lines(short, plan)
        assert line.startswith("too late: time_limit leaves 1.7 days and all steps take 11.6 days, 9.9 days too long;")
        assert line.endswith("In time would be steps of 14.40 s, 1,440 steps, or time_limit: 278h.")
        assert late_lines(long, plan) == []

    def test_beyond_the_bound(self, plan: Plan, build: Any) -> None:
        """Where no plan on these chips could be in time, that is told as proven."""
        assert plan.prediction is not None
        near = replace(plan, prediction=replace(plan.prediction, gap=0.25))
        (line,) = late_lines(told(near, replace(build.job(), time_limit_s=144_000.0)), near)
        assert "steps of 14.40 s (none here takes less than 80.00 s, proven)" in line

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
