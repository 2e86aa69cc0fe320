"""Plans for other frameworks: what is planned for one, it can be given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.plan import Plan
from argosy.plan.exports.formats import FORMATS
from argosy.plan.forms import FORMS, even_count, find_form
from argosy.plan.planner import plan_job

CLASSES = ("north/fast", "south/slow")


def planned(build: Any, name: str, model: str = "tiny", **train: Any) -> tuple[Plan, ...]:
    """Plan a model for a framework on two classes, one of half the speed."""
    classes = [build.chip_class(CLASSES[0]), build.chip_class(CLASSES[1], tflops=0.5)]
    return plan_job(build.job(model, **train), build.shape(model), classes, [build.link()], form=FORMS[name])


class TestForms:
    def test_one_for_each_export(self) -> None:
        """Every framework that can be exported to can be planned for."""
        assert set(FORMS) == set(FORMATS)

    def test_unknown(self) -> None:
        """An unknown name is answered with the nearest."""
        with pytest.raises(BadInputError, match=r"'megaton' to plan for; .*; did you mean megatron\?"):
            find_form("megaton")

    @given(st.integers(1, 5000), st.integers(1, 8), st.integers(1, 600))
    def test_even_counts(self, batch: int, sequences: int, most: int) -> None:
        """The batch divides over the count, and over no greater one that is allowed."""
        count = even_count(batch, sequences, most)
        able = [n for n in range(1, most + 1) if batch % (sequences * n) == 0]
        assert count == (max(able) if able else 0)


class TestPlans:
    @pytest.mark.parametrize("name", ["megatron", "flagscale"])
    @pytest.mark.parametrize("batch", [8, 10, 7])
    def test_what_is_planned_can_be_exported(self, build: Any, name: str, batch: int) -> None:
        """Replicas are all alike, whatever the batch, and the exporter takes every plan listed."""
        plans = planned(build, name, global_batch_size=batch)
        for plan in plans:
            assert len(set(plan.replicas)) == 1
            assert FORMATS[name](plan, build.shape(), None)

    @pytest.mark.slow
    def test_a_model_that_torchtitan_has(self, build: Any) -> None:
        """For torchtitan too, where it has the model."""
        plans = planned(build, "torchtitan", "qwen3-0.6b")
        assert all(FORMATS["torchtitan"](plan, build.shape("qwen3-0.6b"), None) for plan in plans)

    def test_what_it_costs(self, build: Any) -> None:
        """A plan for a framework is never faster than one without its limits."""
        classes = [build.chip_class(CLASSES[0]), build.chip_class(CLASSES[1], tflops=0.5)]
        free = plan_job(build.job(global_batch_size=7), build.shape(), classes, [build.link()])[0]
        bound = planned(build, "megatron", global_batch_size=7)[0]
        assert free.prediction is not None
        assert bound.prediction is not None
        assert free.prediction.step_ms <= bound.prediction.step_ms

    def test_nothing_fits(self, build: Any) -> None:
        """Where no plan of the form fits, the error is the planner's own."""
        small = build.chip_class(memory_gb=1e-6)
        with pytest.raises(NeverFitsError):
            plan_job(build.job(), build.shape(), [small], [], form=FORMS["megatron"])
