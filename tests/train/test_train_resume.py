"""A checkpoint of one plan goes on under another as if nothing had happened."""

import shutil
from pathlib import Path

import pytest

from argosy.contracts.plan import Replica
from argosy.train.checkpoint_folder import checkpoints
from support.phases import in_sites
from support.training import config, job, losses, plan, reference_losses, replica, run_plan, shape_of, tokens

TEXT = config(6)
UNEVEN = (replica([1, 2, 3], 6), replica([2, 4], 2))
ONE = (replica([6], 8),)
TENSOR = (replica([2, 4], 3, tp=2), replica([6], 5))
VIRTUAL = (replica([1, 1, 2, 2], 8),)
# In sites of one, two and two.
SITES = (replica([6], 2), replica([2, 4], 3), replica([6], 1), replica([6], 1), replica([6], 1, tp=2))


def train(replicas: tuple[Replica, ...], folder: Path, tmp: Path, *, zero: int) -> list[float]:
    """Train to step 20, from the newest checkpoint in `folder` if there is one, saving every 10 steps."""
    spec = job(steps=20, batch=8, to=folder, every=10)
    how = {"schedule": "interleaved", "virtual": 2} if replicas is VIRTUAL else {}
    the_plan = plan(shape_of(TEXT), replicas, spec.train, zero=zero, **how)
    if replicas is SITES:
        the_plan = in_sites(the_plan, ["a", "c", "b", "b", "c"])
    return losses(run_plan(the_plan, spec, TEXT, tokens(tmp / "tokens"), tmp))


@pytest.mark.slow
class TestResume:
    """Plan A saves, plan B goes on."""

    @pytest.mark.parametrize(
        ("first", "second", "zero"),
        [
            (UNEVEN, ONE, (0, 0)),
            (ONE, TENSOR, (0, 1)),
            (TENSOR, UNEVEN, (1, 1)),
            (UNEVEN, VIRTUAL, (1, 0)),
            (VIRTUAL, TENSOR, (0, 0)),
            (SITES, UNEVEN, (1, 1)),
            (ONE, SITES, (0, 1)),
        ],
        ids=[
            "uneven pipelines to one process",
            "one process to TP with ZeRO",
            "TP with ZeRO to uneven with ZeRO",
            "uneven with ZeRO to virtual stages",
            "virtual stages to TP",
            "shards of each site to shards of all",
            "one process to shards of each site",
        ],
    )
    def test_curve_goes_on(self, first, second, zero, tmp_path):
        """The loss after a change of plan at step 10 is that of a run that never stopped."""
        whole = reference_losses(shape_of(TEXT), job(steps=20, batch=8), tokens(tmp_path / "tokens"))
        folder = tmp_path / "checkpoints"
        before = train(first, folder, tmp_path, zero=zero[0])
        shutil.rmtree(checkpoints(folder)[-1])
        after = train(second, folder, tmp_path, zero=zero[1])
        assert before == pytest.approx(whole, rel=1e-5)
        assert after == pytest.approx(whole[10:], rel=1e-5)
