"""Schedules that the planner proposes to the trainer: planned for it, run by it, and as good as one process."""

import pytest

from argosy.contracts.fleet import Chip, ChipClass, Node
from argosy.contracts.plan import Plan
from argosy.plan.bind import bind
from argosy.plan.planner import plan_job
from argosy.train.refusal import check_runnable
from support.training import config, job, losses, reference_losses, run_plan, shape_of, tokens

STEPS, LAYERS = 12, 8
TEXT = config(LAYERS)


def chips(count: int, memory_gb: float) -> ChipClass:
    """Build nodes of one emulated chip each, with slow wires, which can't hold the model alone."""
    chip = Chip(
        name="small", vendor="Acme", title="small", tflops={"fp32": 0.0001}, memory_gb=memory_gb, memory_gbytes_s=100.0
    )
    return ChipClass(
        name="here/small", site="here", chip=chip, chips_per_node=1, nodes=count, nic_gbps=0.5, emulated=True
    )


def planned(count: int, batch: int, memory_gb: float) -> Plan:
    """Plan the tiny model for the trainer on so many chips, and place it."""
    plan = plan_job(
        job(steps=STEPS, batch=batch), shape_of(TEXT), [chips(count, memory_gb)], [], fleet="here", runnable=True
    )[0]
    nodes = [Node(name=f"here-{n}", site="here", chip_class="here/small", chips=1) for n in range(1, count + 1)]
    return bind(plan, nodes)


@pytest.mark.slow
class TestPlanned:
    @pytest.mark.parametrize(("schedule", "batch", "memory_gb"), [("zero-bubble", 6, 1e-3), ("interleaved", 8, 7e-4)])
    def test_trains_as_one_process_does(self, tmp_path, schedule, batch, memory_gb):
        """Where it is the fastest that fits, the trainer's plan has that schedule, and its losses are one process's."""
        plan = planned(4, batch, memory_gb)
        assert plan.schedule == schedule
        check_runnable(plan, shape_of(TEXT))
        spec, folder = job(steps=STEPS, batch=batch), tokens(tmp_path)
        measured = losses(run_plan(plan, spec, TEXT, folder, tmp_path))
        assert measured == pytest.approx(reference_losses(shape_of(TEXT), spec, folder), rel=1e-5)
