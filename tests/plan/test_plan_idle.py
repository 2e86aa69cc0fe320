"""Which chips stay idle, and why."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.job import ChipsSpec, Objective
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.idle import idle_classes


def offered(build: Any) -> tuple[tuple[Plan, ...], tuple[Any, ...]]:
    """Plan a job on two classes in two sites; the slow link keeps the second out of the best plan."""
    classes = (build.chip_class("north/fast", tflops=0.02), build.chip_class("south/slow", tflops=0.0001))
    plans = plan_job(build.job(), build.shape(), classes, [build.link(gbps=0.01)])
    return plans, classes


class TestWhy:
    def test_option_that_has_them(self, build: Any) -> None:
        """A class that would slow the rest is named with the option that has it, and its step."""
        plans, classes = offered(build)
        found = idle_classes(build.job(), classes, plans, lambda _one: True)
        assert [(one.chip_class, one.chips, one.of) for one in found] == [("south/slow", 4, 4)]
        assert found[0].why.startswith("option 2, which has them, takes ~")

    def test_too_small_alone(self, build: Any) -> None:
        """A class that can't hold the model alone is told so."""
        plans, classes = offered(build)
        found = idle_classes(build.job(), classes, plans[:1], lambda _one: False)
        assert found[0].why == "the model does not fit on them alone; no better plan with them was found"

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"chips": ChipsSpec(allow=("fast",))}, "not in chips.allow"),
            ({"chips": ChipsSpec(maximum=4)}, "chips.max is 4"),
            ({"objective": Objective(power_kw=2.0)}, "slow has no tdp_w in the catalogue"),
        ],
        ids=str,
    )
    def test_not_allowed(self, changes: dict[str, Any], why: str, build: Any) -> None:
        """What the job or a missing figure forbids is the reason."""
        plans, classes = offered(build)
        found = idle_classes(replace(build.job(), **changes), classes, plans, lambda _one: True)
        assert found[0].why.startswith(why)

    def test_a_cap_that_leaves_room_for_some(self, build: Any) -> None:
        """A cap that feeds only some of the idle chips is told before what keeps those out."""
        plans, (fast, slow) = offered(build)
        assert plans[0].prediction is not None
        plan = replace(plans[0], prediction=replace(plans[0].prediction, power_kw=1.0))
        fed = replace(slow, chip=replace(slow.chip, tdp_w=100.0))
        job = replace(build.job(), objective=Objective(power_kw=1.35))
        (found,) = idle_classes(job, (fast, fed), (plan, *plans[1:]), lambda _one: True)
        assert found.why.startswith("objective.power is 1.35 kW, which leaves room for 2 of them; option 2, which has")
        (none,) = idle_classes(replace(job, objective=Objective(power_kw=1.1)), (fast, fed), (plan,), lambda _one: True)
        assert none.why == "objective.power is 1.1 kW"

    def test_a_cap_far_away_is_no_reason(self, build: Any) -> None:
        """A cap that leaves room for another node is not why chips are idle; for the cheapest plan price is."""
        plans, (fast, _) = offered(build)
        more = replace(fast, nodes=5)
        job = replace(build.job(), chips=ChipsSpec(maximum=100), objective=Objective(goal="cheapest"))
        assert [one.why for one in idle_classes(job, (more,), plans, lambda _one: True)] == ["fewer are cheaper"]

    def test_no_peak(self, build: Any) -> None:
        """So is a chip without a peak for the precision."""
        plans, (fast, slow) = offered(build)
        dull = replace(slow, chip=replace(slow.chip, tflops={}))
        found = idle_classes(build.job(), (fast, dull), plans, lambda _one: True)
        assert "no fp32 peak" in found[0].why

    def test_none_idle(self, build: Any) -> None:
        """A plan that uses all leaves nothing to say."""
        plans, (fast, _) = offered(build)
        assert idle_classes(build.job(), (fast,), plans, lambda _one: True) == ()
