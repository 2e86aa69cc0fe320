"""When a job saves: the rules of `checkpoint:` in job.yaml, decided alike on all ranks."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from argosy.contracts.job import CheckpointSpec
from argosy.train import saving as saving_module
from argosy.train.saving import Saving
from support.training import config, job, launch_of, plan_of, replica
from support.worlds import in_world

CPU = torch.device("cpu")
PARTS = SimpleNamespace(exchange=None, optimizer=None)


def saving(spec: CheckpointSpec | None, *, steps: int = 100, rank: int = 0) -> Saving:
    """Make a rank's saving rules; nothing is built that they would save."""
    the_job = replace(job(steps=steps), checkpoint=spec)
    launch = launch_of(plan_of([replica([6], 8)]), the_job, config(), "tokens", "attempt", port=1)
    return Saving(launch, PARTS, rank, CPU)


def due(spec: CheckpointSpec | None, steps: int = 100) -> list[int]:
    """List the steps after which it saves."""
    made = saving(spec, steps=steps)
    return [step for step in range(1, steps + 1) if made.is_due(step)]


class TestByStep:
    """`every: N steps`."""

    def test_multiples_and_the_last(self):
        """It saves at every multiple of 30 and at the end."""
        assert due(CheckpointSpec(to="x", every_steps=30)) == [30, 60, 90, 100]

    def test_the_last_step_alone(self):
        """With an interval that never comes it saves once, at the end."""
        assert due(CheckpointSpec(to="x", every_steps=1000)) == [100]

    def test_the_last_step_counts_once(self):
        """A last step that is a multiple is one checkpoint."""
        assert due(CheckpointSpec(to="x", every_steps=50)) == [50, 100]

    def test_without_checkpoint(self):
        """A job without `checkpoint:` saves and resumes nothing."""
        assert due(None) == []
        assert saving(None).resume(pytest.fail) == 0
        saving(None).save(3, pytest.fail)

    def test_neither_steps_nor_time(self):
        """Without an interval only the last step is saved."""
        assert due(CheckpointSpec(to="x")) == [100]


@pytest.mark.slow
class TestByTime:
    """`every: 10m`."""

    def test_rank_0s_clock_decides(self, monkeypatch):
        """Rank 1's clock says that it is time and rank 0's does not: nobody saves, and nobody waits; then both do."""

        def decide(rank: int) -> list[bool]:
            now_s = 0.0
            monkeypatch.setattr(saving_module.time, "monotonic", lambda: now_s)
            made, found = saving(CheckpointSpec(to="x", every_s=600), rank=rank), []
            for minute in (5 + 20 * rank, 11):
                now_s = 60.0 * minute
                found.append(made.is_due(minute))
            return found

        assert in_world(2, decide) == [[False, True]] * 2

    def test_steps_and_time(self, monkeypatch):
        """Where both are set, whichever comes first saves."""

        def decide(_: int) -> list[bool]:
            monkeypatch.setattr(saving_module.time, "monotonic", lambda: 0.0)
            made = saving(CheckpointSpec(to="x", every_s=600, every_steps=5))
            first = made.is_due(5)
            monkeypatch.setattr(saving_module.time, "monotonic", lambda: 601.0)
            return [first, made.is_due(6)]

        assert in_world(1, decide) == [[True, True]]
