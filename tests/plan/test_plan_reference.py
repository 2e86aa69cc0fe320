"""What a plan is held against: each class alone at its best, with its share of the batch."""

from typing import Any

import pytest

from argosy.plan.planner import plan_job
from argosy.plan.search import reference as told_by
from argosy.plan.telling.explain import reference_text


class TestReference:
    def classes(self, build: Any) -> list[Any]:
        """Build two classes in two sites, each of which holds the model."""
        return [build.chip_class(tflops=0.002), build.chip_class("south/slow", tflops=0.001)]

    def test_two_classes_are_summed(self, build: Any) -> None:
        """The reference is the sum of both, and efficiency the plan's part of it."""
        plan = plan_job(build.job(global_batch_size=24), build.shape(), self.classes(build), [build.link()])[0]
        told = plan.prediction
        assert told is not None
        assert told.reference_name == "the parts on their own, each at its share of the batch"
        assert sum(part.tokens_per_second for part in told.reference_parts) == told.reference_tokens_per_second
        assert told.efficiency == pytest.approx(told.tokens_per_second / told.reference_tokens_per_second)
        assert [(part.chip_class, part.by_arithmetic) for part in told.reference_parts] == [
            ("north/fast", False),
            ("south/slow", False),
        ]

    def test_a_class_with_a_plan_counts_with_it(self, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A class that has no plan for its share counts with its plan for the whole batch, never with arithmetic."""
        real = told_by.alone_tokens_per_second

        def whole_only(search: Any, part: Any, batch: int) -> float | None:
            return real(search, part, batch) if batch == 24 else None

        monkeypatch.setattr(told_by, "alone_tokens_per_second", whole_only)
        told = plan_job(build.job(global_batch_size=24), build.shape(), self.classes(build), [build.link()])[0]
        assert told.prediction is not None
        assert not any(part.by_arithmetic for part in told.prediction.reference_parts)

    def test_arithmetic_is_said(self, build: Any) -> None:
        """A class that can't hold the model alone counts with its arithmetic, and that is said."""
        classes = [
            build.chip_class(tflops=0.002),
            build.chip_class("north/tiny", memory_gb=0.0012, nodes=1, tflops=0.002),
        ]
        job = build.job(global_batch_size=4)
        told = [plan.prediction for plan in plan_job(job, build.shape(), classes, [])]
        parts = [part for each in told if each for part in each.reference_parts if part.chip_class == "north/tiny"]
        assert parts, told
        assert all(part.by_arithmetic for part in parts)
        texts = [reference_text(each) for each in told if each and each.reference_parts]
        assert all(
            "north/tiny ~" in text and "(arithmetic: the model does not fit on it alone)" in text for text in texts
        )
