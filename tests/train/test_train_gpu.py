"""The same code on a CUDA device: curves, bf16, and checkpoints that cross from one device to the other."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from argosy.contracts.messages import Finished
from argosy.train.rank import run_rank
from support.training import config, job, launch_of, losses, plan, reference_losses, replica, shape_of, tokens
from support.worlds import spawn_rank

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
TEXT = config(4)
CUDA = {"here/cpu": "cuda"}


def body(launch):
    """Run rank 0 of a launch; gives all its reports."""
    reports: list = []
    run_rank(launch, 0, reports.append)
    return reports


def train(tmp: Path, *, devices, steps: int = 10, precision: str = "fp32", to: Path | None = None, recompute="none"):
    """Train on one rank, in a fresh process, for CUDA does not survive a fork."""
    the_job = job(steps=steps, batch=4, precision=precision, to=to, every=5)
    one = replica([4], 4)
    one = replace(one, stages=(replace(one.stages[0], recompute=recompute),))
    the_plan = plan(shape_of(TEXT), [one], the_job.train)
    launch = launch_of(the_plan, the_job, TEXT, tokens(tmp / "tokens"), tmp, port=0)
    return spawn_rank(body, replace(launch, devices=devices))


class TestCuda:
    """One rank on one device."""

    def test_curve_is_the_cpus(self, tmp_path):
        """In fp32 ten steps on CUDA follow the plain loop on a CPU within 1e-3."""
        found = losses(train(tmp_path, devices=CUDA))
        wanted = reference_losses(shape_of(TEXT), job(steps=10, batch=4), tokens(tmp_path / "tokens"))
        assert found == pytest.approx(wanted, rel=1e-3)

    @pytest.mark.parametrize("recompute", ["none", "full"])
    def test_bf16_learns(self, tmp_path, recompute):
        """In bf16, with recompute or without, the loss stays within 2 % of fp32 on a CPU."""
        found = losses(train(tmp_path, devices=CUDA, precision="bf16", recompute=recompute))
        wanted = reference_losses(shape_of(TEXT), job(steps=10, batch=4), tokens(tmp_path / "tokens"))
        assert found == pytest.approx(wanted, rel=0.02)

    @pytest.mark.parametrize(("first", "second"), [({}, CUDA), (CUDA, {})], ids=["CPU to CUDA", "CUDA to CPU"])
    def test_checkpoints_cross(self, tmp_path, first, second):
        """A job that saved on one device goes on from step 5 on the other."""
        train(tmp_path, devices=first, steps=5, to=tmp_path / "to")
        found = losses(train(tmp_path, devices=second, steps=10, to=tmp_path / "to"))
        assert len(found) == 5
        assert found[-1] < 4.2

    def test_memory_is_the_devices(self, tmp_path):
        """The peak that a rank reports is the device's, far below what the process holds."""
        (finished,) = [said for said in train(tmp_path, devices=CUDA, steps=2) if isinstance(said, Finished)]
        assert 0 < finished.memory_gb < 0.2
