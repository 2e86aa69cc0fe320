"""Predicted beside measured."""

from dataclasses import replace

import pytest

from argosy.cli.choosing import choose
from argosy.cli.summary import Measured, change, compare, fell_behind, measure
from argosy.contracts.messages import Finished
from argosy.contracts.plan import Plan, Prediction
from support.runs import Workspace, step

TOLD = Prediction(
    step_ms=100,
    tokens_per_second=10_000,
    mfu=0.4,
    reference_tokens_per_second=11_000,
    reference_name="b",
    efficiency=0.9,
)


def bound_plan(workspace: Workspace, *, emulated: bool = True, cost: float | None = None) -> Plan:
    """Make a plan with a round prediction."""
    plan = choose(workspace.inputs()).plan
    told = replace(TOLD, emulated=emulated, cost_per_trillion_tokens=cost)
    return replace(plan, prediction=told, emulated=emulated)


def figures(workspace: Workspace, plan: Plan, **step_times: float | None) -> Measured:
    """Measure five steps, the first of them slow, on chips of 2 $ an hour."""
    inputs = workspace.inputs()
    classes = tuple(replace(c, chip=replace(c.chip, price_per_hour=2.0)) for c in inputs.classes)
    inputs = replace(inputs, classes=classes)
    steps = [
        step(1, 9.0, wall_s=5.0, virtual_s=step_times.get("virtual_s")),
        *(step(n, **step_times) for n in range(2, 6)),
    ]
    finished = [Finished(step=5, memory_gb=g) for g in (0.3, 0.5)]
    found = measure(inputs, replace(choose(inputs), plan=plan), steps, len(steps), finished)
    assert found is not None
    return found


class TestMeasure:
    def test_emulated_chips_count_by_their_clock(self, workspace: Workspace) -> None:
        """Throughput and MFU follow the emulated clock; the wall's time is kept beside, without the first step."""
        found = figures(workspace, bound_plan(workspace), virtual_s=0.125, wall_s=0.2)
        assert (found.step_ms, found.wall_step_ms) == pytest.approx((125, 200))
        assert found.tokens_per_second == pytest.approx(8000)
        twice = figures(workspace, bound_plan(workspace), virtual_s=0.0625).mfu
        assert twice == pytest.approx(2 * (found.mfu or 0))
        assert found.memory_gb == 0.5
        assert (found.loss_first, found.loss_last) == (9.0, 2.0)

    def test_real_chips_count_by_the_wall(self, workspace: Workspace) -> None:
        """Without an emulated clock the wall's time is the step, and prices follow the throughput."""
        plan = bound_plan(workspace, emulated=False, cost=50.0)
        found = figures(workspace, plan, virtual_s=None, wall_s=0.2)
        assert found.step_ms == found.wall_step_ms == pytest.approx(200)
        assert found.cost_per_trillion_tokens == pytest.approx(4 / 3600 / 5000 * 1e12)

    def test_emulated_chips_have_no_price(self, workspace: Workspace) -> None:
        """A price of emulated time would mean nothing."""
        assert figures(workspace, bound_plan(workspace, cost=50.0), virtual_s=0.1).cost_per_trillion_tokens is None

    def test_nothing_without_steps(self, workspace: Workspace) -> None:
        """An attempt without a step of its own has no figures, whatever went before."""
        inputs = workspace.inputs()
        assert measure(inputs, choose(inputs), [step(1)], 0, []) is None

    def test_a_plan_without_prediction(self, workspace: Workspace) -> None:
        """A plan from a file without a prediction still shows what was measured."""
        plan = replace(bound_plan(workspace), prediction=None)
        lines = compare(plan, figures(workspace, plan, virtual_s=0.1))
        assert [line.what for line in lines] == ["a step", "tokens/s", "MFU"]
        assert {line.predicted for line in lines} == {"-"}
        assert all(line.measured.startswith("~") for line in lines)


class TestCompare:
    def test_marks_what_is_emulated(self, workspace: Workspace) -> None:
        """Every emulated time has its mark, the wall's has none."""
        plan = bound_plan(workspace)
        lines = {line.what: line for line in compare(plan, figures(workspace, plan, virtual_s=0.125, wall_s=0.2))}
        assert lines["a step, emulated clock"].measured == "~125.0 ms"
        assert lines["a step, emulated clock"].difference == "+25.0 %"
        assert lines["a step, on the wall's clock"].measured == "200.0 ms"
        assert lines["tokens/s"].measured == "~8,000"
        assert "(the process)" in lines["memory, fullest rank"].measured

    def test_real_chips_have_no_mark(self, workspace: Workspace) -> None:
        """On real chips nothing is marked, there is one step time, and a price."""
        plan = bound_plan(workspace, emulated=False, cost=50.0)
        lines = compare(plan, figures(workspace, plan, virtual_s=None, wall_s=0.2))
        assert "~" not in "".join(line.predicted + line.measured for line in lines)
        assert [line.what for line in lines].count("a step") == 1
        assert lines[-1].measured == "222,222"

    @pytest.mark.parametrize(
        ("measured", "text"), [(102, "+2.0 %"), (100, "+0.0 %"), (99.999, "+0.0 %"), (50, "-50.0 %")]
    )
    def test_change(self, measured: float, text: str) -> None:
        """Differences have a sign, and nothing is never negative."""
        assert change(100, measured) == text
        assert change(0, measured) == ""


class TestBehind:
    @pytest.mark.parametrize(
        ("wall_s", "text"),
        [
            (0.1, ""),
            (0.104, ""),
            (0.14, "the wall clock fell 40 % behind: this machine is too busy or too slow to play 5 ranks"),
        ],
    )
    def test_a_machine_that_cannot_keep_up(self, wall_s: float, text: str, workspace: Workspace) -> None:
        """When steps take longer than the emulated clock says, that is told once, and that virtual times stand."""
        found = fell_behind(figures(workspace, bound_plan(workspace), virtual_s=0.1, wall_s=wall_s), 5)
        assert found.startswith(text)
        assert bool(found) == bool(text)
        assert not found or found.endswith("virtual times stand")

    def test_real_chips_have_one_clock(self, workspace: Workspace) -> None:
        """Without an emulated clock there is nothing to fall behind."""
        plan = bound_plan(workspace, emulated=False)
        assert fell_behind(figures(workspace, plan, virtual_s=None, wall_s=9.0), 5) == ""
