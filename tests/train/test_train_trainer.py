"""The training loop where things go wrong: numbers that are none, and peers that die."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from argosy.contracts.blame import INFRASTRUCTURE, USER, blame_of, exit_code_of, is_peer_symptom
from argosy.contracts.errors import UserCodeError
from argosy.contracts.messages import StepDone
from argosy.train import checkpoint as checkpoint_module
from argosy.train.checkpoint_folder import checkpoints
from argosy.train.pipeline import Pipeline
from support.training import config, end_ranks, job, plan, replica, shape_of, tokens

TEXT = config(4)
REPLICAS = (replica([2, 2], 2), replica([4], 2))


def spoil(monkeypatch, step: int, act) -> None:
    """Let `act(pipeline, loss)` stand in for the loss of one step, counted from 1, on every rank."""
    real, steps = Pipeline.run, []

    def run(self, rows):
        steps.append(1)
        loss = real(self, rows)
        return act(self, loss) if len(steps) == step else loss

    monkeypatch.setattr(Pipeline, "run", run)


def train(tmp_path, *, every: int = 1, zero: int = 0, **changes):
    """Train four steps, saving each."""
    the_job = job(steps=4, batch=4, to=tmp_path / "to", every=every)
    the_job = replace(the_job, train=replace(the_job.train, **changes))
    the_plan = plan(shape_of(TEXT), REPLICAS, the_job.train, zero=zero)
    return end_ranks(the_plan, the_job, TEXT, tokens(tmp_path / "tokens"), tmp_path)


@pytest.mark.slow
class TestDivergence:
    """A loss or a norm that is no number."""

    @pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["nan", "inf"])
    def test_stops_before_it_is_kept(self, tmp_path, monkeypatch, value):
        """All ranks stop at step 3, say what to change, and leave step 2 as the newest checkpoint."""
        spoil(monkeypatch, 3, lambda pipeline, loss: loss + value if pipeline.last else loss)
        ended = train(tmp_path)
        assert {(type(each.error), each.code) for each in ended} == {(UserCodeError, 4)}
        assert all(blame_of(each.error) == USER for each in ended)
        assert f"step 3: the loss is {value:g}" in ended[0].error_text
        assert "Lower train.learning_rate (now 0.003)" in ended[0].error_text
        assert [path.name for path in checkpoints(tmp_path / "to")] == ["step-00000001", "step-00000002"]

    def test_every_report_has_a_number(self, tmp_path):
        """Even a rate far too high gives finite losses or a stop, never a report that can't be read."""
        ended = train(tmp_path, learning_rate=1e30, warmup_steps=0, clip_norm=0.0)
        said = [said.loss for said in ended[0].said if isinstance(said, StepDone)]
        assert len(said) < 4
        assert all(torch.tensor(said).isfinite())
        assert {each.code for each in ended} == {4}


@pytest.mark.slow
class TestDeadPeer:
    """What survivors say when a rank is killed."""

    @pytest.mark.parametrize("victim", [0, 1, 2], ids=["first stage", "last stage", "other replica"])
    @pytest.mark.parametrize("zero", [0, 1])
    def test_is_a_symptom(self, tmp_path, monkeypatch, victim, zero):
        """Survivors stop within the test's time, each with an error that blames the infrastructure, not itself."""

        def die(pipeline, loss):
            if torch.distributed.get_rank() == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            return loss

        spoil(monkeypatch, 3, die)
        ended = train(tmp_path, zero=zero)
        assert ended[victim].code == -signal.SIGKILL
        for each in ended:
            if each.rank != victim:
                assert is_peer_symptom(each.error_text), each.error_text
                assert (blame_of(RuntimeError(each.error_text)), each.code != 0) == (INFRASTRUCTURE, True)
        assert exit_code_of(RuntimeError(ended[victim - 1].error_text)) == 5

    def test_while_all_save(self, tmp_path, monkeypatch):
        """A peer that dies while all save gives the same kind of error, and no checkpoint."""
        real = checkpoint_module.save_pieces

        def die(*given):
            if torch.distributed.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given)

        monkeypatch.setattr(checkpoint_module, "save_pieces", die)
        ended = train(tmp_path)
        assert ended[1].code == -signal.SIGKILL
        assert all(is_peer_symptom(each.error_text) for each in ended if each.rank != 1)
        assert checkpoints(tmp_path / "to") == ()
