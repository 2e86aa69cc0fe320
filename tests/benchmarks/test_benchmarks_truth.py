"""Plans drawn for the benchmark that holds the timeline against the emulated trainer."""

import random
from dataclasses import replace

import pytest

from argosy.contracts.plan import TRAINER_SCHEDULES, Plan
from argosy.train.refusal import check_runnable
from support.training import config, shape_of

PLANS = 24


@pytest.fixture(scope="module")
def truth(benchmark):
    """Import the benchmark."""
    return benchmark("planner_truth")


def bound(plan: Plan) -> Plan:
    """Give every place ranks of its own."""
    replicas, ranks = [], 0
    for each in plan.replicas:
        places = len(plan.places(each))
        stages = [replace(stage, ranks=(ranks + s % places,)) for s, stage in enumerate(each.stages)]
        replicas.append(replace(each, stages=tuple(stages)))
        ranks += places
    return replace(plan, replicas=tuple(replicas))


class TestDrawnPlans:
    def test_the_trainer_runs_them(self, truth):
        """Whatever is drawn is timed, is of 2 to 16 ranks, and is nothing that the trainer refuses."""
        for index in range(PLANS):
            schedule = TRAINER_SCHEDULES[index % len(TRAINER_SCHEDULES)]
            plan = truth.drawn_plan(schedule, random.Random(f"any/{index}"))
            assert 2 <= plan.world_size <= truth.RANKS_MAX
            assert plan.prediction.step_ms > 0
            check_runnable(bound(plan), shape_of(config(truth.LAYERS)))

    def test_a_seed_draws_the_same(self, truth):
        """The same seed gives the same plan, another one another."""
        first, again, other = (truth.drawn_plan("1f1b", random.Random(seed)) for seed in ("1", "1", "2"))
        assert first == again
        assert first != other
