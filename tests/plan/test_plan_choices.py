"""What each choice of a plan is worth, and the explanation made of it."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.codec import decode, encode
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.explanation import Explanation, explanation
from argosy.plan.telling.traits import is_sound, traits


@pytest.fixture(scope="module")
def classes(build: Any) -> list[Any]:
    """Two classes in two sites."""
    return [build.chip_class("north/fast", tflops=0.002), build.chip_class("south/slow", tflops=0.001)]


@pytest.fixture(scope="module")
def plan(build: Any, classes: list[Any]) -> Plan:
    """Plan the tiny model on both."""
    return plan_job(build.job(global_batch_size=24), build.shape(), classes, [build.link(gbps=1000)])[0]


@pytest.fixture(scope="module")
def told(build: Any, classes: list[Any], plan: Plan) -> Explanation:
    """Explain that plan."""
    return explanation(build.job(global_batch_size=24), build.shape(), classes, [build.link(gbps=1000)], [plan])


class TestTraits:
    def test_names(self, plan: Plan) -> None:
        """A plan of two classes is told by each class's axes, and by what is chosen for all."""
        found = traits(plan)
        assert {"TP on north/fast", "stages on south/slow", "micro-batch size", "ZeRO", "schedule"} <= set(found)
        assert found["recompute"] == "none"

    def test_unlike_replicas(self, plan: Plan) -> None:
        """Where replicas choose differently, all their choices are told."""
        wide = replace(plan.replicas[0], microbatch_size=16)
        assert (
            traits(replace(plan, replicas=(plan.replicas[0], wide)))["micro-batch size"]
            == f"{plan.replicas[0].microbatch_size} and 16"
        )

    def test_sound(self, plan: Plan) -> None:
        """What was changed by hand into no plan at all is told from one."""
        assert is_sound(plan)
        assert not is_sound(replace(plan, global_batch_size=5))


@pytest.mark.slow
class TestChoices:
    def test_every_choice(self, told: Explanation, plan: Plan) -> None:
        """Every trait and every class has its line: what was chosen, and the best otherwise or that there is none."""
        names = {choice.name for choice in told.choices}
        assert {name for name in traits(plan) if name[:2] not in ("CP", "EP")} | {"chips of south/slow"} <= names
        assert all(choice.instead != choice.here for choice in told.choices)

    def test_nothing_found_is_better(self, told: Explanation) -> None:
        """The chosen plan is the fastest, so whatever is otherwise takes longer."""
        changes = [choice.change for choice in told.choices if choice.change is not None]
        assert len(changes) > 3
        assert min(changes) > -1e-6

    def test_what_matters_most_comes_first(self, told: Explanation) -> None:
        """The choices whose change costs most stand first."""
        changes = [choice.change or 0.0 for choice in told.choices]
        assert changes == sorted(changes, reverse=True)

    def test_listed_plans_are_candidates(self, build: Any, classes: list[Any]) -> None:
        """Nothing that is told as the best otherwise is worse than a plan of the list that is otherwise too."""
        job, links = build.job(global_batch_size=24), [build.link(gbps=1000)]
        plans = plan_job(job, build.shape(), classes, links)
        told = {one.name: one for one in explanation(job, build.shape(), classes, links, plans).choices}
        here = traits(plans[0])
        for other in plans[1:]:
            assert plans[0].prediction is not None
            assert other.prediction is not None
            change = other.prediction.step_ms / plans[0].prediction.step_ms - 1
            used = {stage.chip_class for replica in other.replicas for stage in replica.stages}
            rows = [f"chips of {one.name}" for one in classes if one.name not in used]
            rows += [name for name, value in traits(other).items() if value != here.get(name, value)]
            assert rows
            assert all((told[name].change or 0.0) <= change + 1e-9 for name in rows if name in told)

    def test_a_class_left_out(self, build: Any, classes: list[Any], plan: Plan) -> None:
        """A class that the plan does not use has its line too: what it would be with it."""
        job, links = build.job(global_batch_size=24), [build.link(gbps=1000)]
        alone = plan_job(job, build.shape(), classes[:1], links)[0]
        told = {one.name: one for one in explanation(job, build.shape(), classes, links, [alone]).choices}
        assert (told["chips of south/slow"].here, told["chips of south/slow"].instead) == ("left out", "with them")
        assert (told["chips of south/slow"].change or 0.0) < 0


@pytest.mark.slow
class TestExplanation:
    def test_what_binds(self, told: Explanation, plan: Plan) -> None:
        """What holds the plan back is told by kind, largest first, and agrees with the prediction."""
        shares = [share for _, share in told.binding]
        assert shares == sorted(shares, reverse=True)
        assert plan.prediction is not None
        bubble = sum(holdup.share for holdup in plan.prediction.holdups if holdup.what.startswith("bubble"))
        assert dict(told.binding).get("bubble", 0.0) == pytest.approx(bubble)

    def test_memory_binds(self, build: Any) -> None:
        """Where chips with more memory would allow a faster plan, memory is among what binds."""
        tight = build.chip_class(memory_gb=0.005, tflops=0.02)
        job = build.job(global_batch_size=16, sequence_length=256)
        plan = plan_job(job, build.shape(), [tight], [])[0]
        told = explanation(job, build.shape(), [tight], [], [plan])
        assert dict(told.binding)["memory"] > 0.05

    def test_left_out(self, build: Any, classes: list[Any], plan: Plan) -> None:
        """Chips without a figure for the precision are named with what would do."""
        blind = build.chip_class("south/blind")
        blind = replace(blind, chip=replace(blind.chip, tflops={}))
        told = explanation(build.job(global_batch_size=24), build.shape(), [*classes, blind], [], [plan])
        assert any("blind has no fp32 peak" in reason for reason in told.left_out)

    def test_survives_json(self, told: Explanation) -> None:
        """`--json` carries all of it."""
        assert decode(encode(told), Explanation) == told
