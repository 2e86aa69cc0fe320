"""What a plan is held against: each class alone at its best, with its share of the batch."""

from typing import Any

import pytest

from argosy.plan.planner import plan_job
from argosy.plan.search import reference as told_by


class TestReference:
    def classes(self, build: Any) -> list[Any]:
        """Build two classes in two sites, each of which holds the model."""
        return [build.chip_class(tflops=0.002), build.chip_class("south/slow", tflops=0.001)]

    def test_two_classes_are_summed(self, build: Any) -> None:
        """The reference is the sum of both, and efficiency the plan's part of it."""
        plan = plan_job(build.job(global_batch_size=24), build.shape(), self.classes(build), [build.link()])[0]
        told = plan.prediction
        assert told is not None
        assert told.reference_name.startswith(
            "the parts on their own, each at its share of the batch, give north/fast "
        )
        assert told.efficiency == pytest.approx(told.tokens_per_second / told.reference_tokens_per_second)
        assert "arithmetic" not in told.reference_name

    def test_a_class_with_a_plan_counts_with_it(self, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A class that has no plan for its share counts with its plan for the whole batch, never with arithmetic."""
        real = told_by.alone_tokens_per_second

        def whole_only(search: Any, part: Any, batch: int) -> float | None:
            return real(search, part, batch) if batch == 24 else None

        monkeypatch.setattr(told_by, "alone_tokens_per_second", whole_only)
        told = plan_job(build.job(global_batch_size=24), build.shape(), self.classes(build), [build.link()])[0]
        assert told.prediction is not None
        assert "arithmetic" not in told.prediction.reference_name

    def test_arithmetic_is_said(self, build: Any) -> None:
        """A class that can't hold the model alone counts with its arithmetic, and that is said."""
        classes = [
            build.chip_class(tflops=0.002),
            build.chip_class("north/tiny", memory_gb=0.0012, nodes=1, tflops=0.002),
        ]
        job = build.job(global_batch_size=4)
        told = [plan.prediction for plan in plan_job(job, build.shape(), classes, [])]
        names = [each.reference_name for each in told if each is not None and "tiny" in each.reference_name]
        assert names, told
        assert all("(arithmetic: the model does not fit on it alone)" in name for name in names)
