"""What holds of every plan, whatever the fleet."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import NeverFitsError
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.telling.explain import plan_chips
from argosy.plan.timing.check import check_plan

law = settings(derandomize=True, deadline=None, max_examples=6)
fleets = st.lists(
    st.tuples(st.sampled_from([0.001, 0.002, 0.003]), st.integers(1, 3), st.sampled_from([0.004, 0.006, 1.0])),
    min_size=1,
    max_size=3,
)
# How much more than the timeline's best a search that estimates first may miss.
MISSED = 1.02


def classes_of(build: Any, fleet: list[Any], sites: tuple[str, ...] = ("north", "south", "north")) -> list[Any]:
    """Build a class of each (TFLOPS, nodes, GB)."""
    return [
        build.chip_class(f"{sites[i]}/chip{i}", speed, nodes=nodes, memory_gb=memory_gb)
        for i, (speed, nodes, memory_gb) in enumerate(fleet)
    ]


def best(build: Any, classes: list[Any], batch: int, **more: Any) -> Plan | None:
    """Plan a job; None where nothing fits."""
    try:
        return plan_job(build.job(global_batch_size=batch), build.shape(), classes, (build.link(),), **more)[0]
    except NeverFitsError:
        return None


def step_ms(plan: Plan | None) -> float:
    """Give the predicted step; infinite without a plan."""
    return plan.prediction.step_ms if plan and plan.prediction else float("inf")


class TestLegal:
    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([4, 12, 30]), st.booleans())
    def test_fits_and_adds_up(self, build: Any, fleet: list[Any], batch: int, runnable: bool) -> None:
        """A plan passes the check, no rank holds more than its chip, no chip is used twice, the batch is whole."""
        classes = classes_of(build, fleet)
        plan = best(build, classes, batch, runnable=runnable)
        if plan is None:
            return
        check_plan(plan)
        assert sum(replica.sequences for replica in plan.replicas) == batch
        for replica in plan.replicas:
            assert all(stage.memory_gb <= stage.memory_limit_gb for stage in replica.stages)
            assert sum(stage.end_layer - stage.first_layer for stage in replica.stages) == plan.num_layers
        assert all(used <= next(c for c in classes if c.name == n).chips for n, used in plan_chips(plan).items())
        assert plan.prediction is not None
        assert plan.prediction.gap is not None
        assert plan.prediction.gap >= 0


class TestFleet:
    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([6, 24]))
    def test_more_chips_are_not_slower(self, build: Any, fleet: list[Any], batch: int) -> None:
        """A fleet is planned no worse than without one of its classes, or one node of it."""
        classes = classes_of(build, fleet)
        whole = step_ms(best(build, classes, batch))
        for index, chips in enumerate(classes):
            others = [*classes[:index], *classes[index + 1 :]]
            if others:
                assert whole <= step_ms(best(build, others, batch)) * MISSED
            if chips.nodes > 1:
                fewer = [replace(c, nodes=c.nodes - 1) if c is chips else c for c in classes]
                assert whole <= step_ms(best(build, fewer, batch)) * MISSED

    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([6, 24]))
    def test_order_changes_nothing(self, build: Any, fleet: list[Any], batch: int) -> None:
        """Classes named in another order give the same plan."""
        classes = classes_of(build, fleet)
        assert best(build, classes, batch) == best(build, classes[::-1], batch)

    @pytest.mark.slow
    @law
    @given(fleets, st.sampled_from([6, 24]))
    def test_double_speed_halves_a_step(self, build: Any, fleet: list[Any], batch: int) -> None:
        """Chips, memories and wires of twice the speed take half the step, but for delays, which stay."""
        classes = classes_of(build, fleet, ("north", "north", "north"))
        doubled = [
            replace(
                c,
                nic_gbps=2 * c.nic_gbps,
                chip=replace(
                    c.chip,
                    tflops={dtype: 2 * peak for dtype, peak in c.chip.tflops.items()},
                    memory_gbytes_s=2 * c.chip.memory_gbytes_s,
                    scale_up_gbytes_s=2 * c.chip.scale_up_gbytes_s,
                ),
            )
            for c in classes
        ]
        slow, fast = step_ms(best(build, classes, batch)), step_ms(best(build, doubled, batch))
        if slow < float("inf"):
            assert slow / 2 <= fast * MISSED
            assert fast <= slow / 2 * MISSED + DELAYS_MS


# What a step of so small a model pays in delays of its wires at most, which don't shrink with speed.
DELAYS_MS = 0.5
