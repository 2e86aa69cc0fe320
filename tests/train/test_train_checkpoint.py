"""Checkpoints: whole or not there, never half; what is kept, what is refused, what a full disk or a kill leaves."""

import errno
import fcntl
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import CheckpointSpec, Job
from argosy.contracts.messages import Note, Saved
from argosy.model.config import read_config
from argosy.train import checkpoint as checkpoint_module
from argosy.train.checkpoint_folder import CheckpointInfo, checkpoints, read_info, write_info
from argosy.train.export import whole_tensors
from support.training import config, end_ranks, job, plan, replica, shape_of, tokens
from support.worlds import Ended

TEXT = config(4)
PAIR = (replica([2, 2], 2), replica([4], 2))
ONE = (replica([4], 4),)


def saving(folder: Path, *, steps: int = 4, every: int = 2, keep: int = 3, resume: bool = True) -> Job:
    """Say how to train the tiny model with checkpoints."""
    spec = CheckpointSpec(to=str(folder), every_steps=every, keep=keep, resume=resume)
    return replace(job(steps=steps, batch=4), checkpoint=spec)


def train(the_job: Job, tmp: Path, replicas=ONE, *, text: str = TEXT, zero: int = 0) -> list[Ended]:
    """Train; gives how every rank ended."""
    the_plan = plan(shape_of(text), replicas, the_job.train, zero=zero)
    return end_ranks(the_plan, the_job, text, tokens(tmp / "tokens"), tmp)


def names(folder: Path) -> list[str]:
    """List what lies in a folder, but its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def saved_steps(ended: list[Ended]) -> list[int]:
    """List the steps whose checkpoint was reported."""
    return [said.step for said in ended[0].said if isinstance(said, Saved)]


def notes(ended: list[Ended]) -> str:
    """Join what rank 0 noted."""
    return "\n".join(said.text for said in ended[0].said if isinstance(said, Note))


def pretend(folder: Path, *there: str) -> None:
    """Make folders that look like checkpoints."""
    for name in there:
        (folder / name).mkdir(parents=True)
        (folder / name / "argosy.json").write_text("{}")


class TestList:
    """What counts as a checkpoint."""

    def test_finished_ones_oldest_first(self, tmp_path):
        """Only whole folders named by a step count, oldest first."""
        pretend(tmp_path, "step-00000020", "step-00000003", "step-00000100", "step-00000200.writing")
        pretend(tmp_path, "old-step-00000300", "my-step-00000400", "step-5", "step-00000600.bak")
        (tmp_path / "step-00000700").mkdir()
        assert [path.name for path in checkpoints(tmp_path)] == ["step-00000003", "step-00000020", "step-00000100"]

    def test_no_folder(self, tmp_path):
        """A folder that is not there has none."""
        assert checkpoints(tmp_path / "nowhere") == ()


def described(step: int, *, version: int = 1) -> CheckpointInfo:
    """Describe a checkpoint of nothing in particular."""
    return CheckpointInfo(
        step=step,
        model="m",
        seed=0,
        global_batch_size=1,
        sequence_length=1,
        data="",
        tokens=1,
        model_config="{}",
        version=version,
    )


class TestInfo:
    """What argosy.json says."""

    def test_no_checkpoint(self, tmp_path):
        """A folder without argosy.json is named."""
        with pytest.raises(BadInputError, match=f"{tmp_path}: not a checkpoint"):
            read_info(tmp_path)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"step": "x"}', '{"step": 1, "version": 1}', "\xff"], ids=repr)
    def test_broken(self, tmp_path, text):
        """A description that can't be read is named with its file."""
        (tmp_path / "argosy.json").write_text(text, encoding="latin1")
        with pytest.raises(BadInputError, match=r"argosy\.json: not a CheckpointInfo"):
            read_info(tmp_path)

    def test_another_step(self, tmp_path):
        """A description that was copied from another step is not believed."""
        pretend(tmp_path, "step-00000020")
        write_info(tmp_path / "step-00000020", described(99))
        with pytest.raises(BadInputError, match="says step 99, its folder another"):
            read_info(tmp_path / "step-00000020")

    def test_other_version(self, tmp_path):
        """A checkpoint of a later Argosy names both versions."""
        write_info(tmp_path, described(1, version=2))
        with pytest.raises(BadInputError, match=r"argosy\.json: .* version 2; this Argosy reads version 1"):
            read_info(tmp_path)


@pytest.mark.slow
class TestSaving:
    """What a run leaves."""

    @pytest.mark.parametrize(("replicas", "zero"), [(ONE, 0), (PAIR, 0), (PAIR, 1)], ids=["one", "two", "sharded"])
    def test_says_what_is_in_it(self, tmp_path, replicas, zero):
        """argosy.json holds step, model, seed, tokens and config, and the last step is saved though none was due."""
        ended = train(saving(tmp_path / "to", steps=3), tmp_path, replicas, zero=zero)
        assert saved_steps(ended) == [2, 3]
        assert names(tmp_path / "to") == ["step-00000002", "step-00000003"]
        info = read_info(tmp_path / "to" / "step-00000003")
        assert (info.step, info.seed, info.tokens, info.model_config) == (3, 0, 3 * 4 * 16, TEXT)

    def test_keeps_the_newest(self, tmp_path):
        """With keep 2 the third and fourth checkpoint stay; strangers' files beside them are left alone."""
        (tmp_path / "to" / "step-notes").mkdir(parents=True)
        train(saving(tmp_path / "to", steps=4, every=1, keep=2), tmp_path)
        assert names(tmp_path / "to") == ["step-00000003", "step-00000004", "step-notes"]

    def test_removes_what_was_never_finished(self, tmp_path):
        """A folder that an earlier, killed save left is gone when the job begins, and is not resumed from."""
        pretend(tmp_path / "to", "step-00000099.writing")
        ended = train(saving(tmp_path / "to"), tmp_path)
        assert "resumed" not in notes(ended)
        assert names(tmp_path / "to") == ["step-00000002", "step-00000004"]

    def test_replaces_the_same_step(self, tmp_path):
        """Saving a step whose folder is there already, spoiled, puts a whole one in its place."""
        train(saving(tmp_path / "to"), tmp_path)
        (tmp_path / "to" / "step-00000004" / "argosy.json").unlink()
        ended = train(saving(tmp_path / "to"), tmp_path)
        assert saved_steps(ended) == [4]
        assert read_info(tmp_path / "to" / "step-00000004").step == 4
        assert names(tmp_path / "to") == ["step-00000002", "step-00000004"]


@pytest.mark.slow
class TestResume:
    """Where a job goes on."""

    def test_newest_whole_one(self, tmp_path):
        """The newest whole checkpoint is taken, not a later half one."""
        train(saving(tmp_path / "to"), tmp_path)
        pretend(tmp_path / "to", "step-00000009.writing")
        ended = train(saving(tmp_path / "to", steps=6), tmp_path, PAIR, zero=1)
        assert f"resumed from {tmp_path}/to/step-00000004 at step 4" in notes(ended)
        assert saved_steps(ended) == [6]

    def test_nothing_is_left_to_do(self, tmp_path):
        """A job that is done already ends well at once."""
        train(saving(tmp_path / "to"), tmp_path)
        (ended,) = train(saving(tmp_path / "to"), tmp_path)
        assert ended.code == 0
        assert saved_steps([ended]) == []

    def test_not_wanted(self, tmp_path):
        """With resume off a job starts anew; earlier checkpoints are set aside, neither resumed from nor deleted."""
        train(saving(tmp_path / "to", steps=6), tmp_path)
        ended = train(saving(tmp_path / "to", steps=2, keep=1, resume=False), tmp_path)
        assert saved_steps(ended) == [2]
        assert names(tmp_path / "to") == [*(f"old-step-0000000{n}" for n in (2, 4, 6)), "step-00000002"]
        train(saving(tmp_path / "to", steps=2, keep=1, resume=False), tmp_path)
        assert "old-step-00000002-2" in names(tmp_path / "to")

    @pytest.mark.parametrize("replicas", [ONE, PAIR], ids=["one rank", "three ranks"])
    def test_another_models(self, tmp_path, replicas):
        """A checkpoint of more layers holds all tensors of this model and is refused all the same, by every rank."""
        train(saving(tmp_path / "to"), tmp_path, [replica([6], 4)], text=config(6))
        ended = train(saving(tmp_path / "to"), tmp_path, replicas)
        assert {type(each.error) for each in ended} == {BadInputError}
        assert "step-00000004 is another model's checkpoint: num_layers 6, here 4" in ended[0].error_text

    @pytest.mark.parametrize("what", ["seed", "global_batch_size", "sequence_length"])
    def test_other_batches(self, tmp_path, what):
        """A job whose batches would be others is refused by name, with both values and how to start anew."""
        train(saving(tmp_path / "to"), tmp_path)
        spec = saving(tmp_path / "to", steps=6)
        other = replace(spec, train=replace(spec.train, **{what: 8}))
        the_plan = plan(shape_of(TEXT), [replica([4], other.train.global_batch_size)], other.train)
        (ended,) = end_ranks(the_plan, other, TEXT, tokens(tmp_path / "tokens"), tmp_path)
        assert isinstance(ended.error, BadInputError)
        assert f"other batches: train.{what} {getattr(spec.train, what)}, here 8" in ended.error_text
        assert "initial_weights" in ended.error_text

    def test_other_data(self, tmp_path):
        """A job on other text is refused too."""
        train(saving(tmp_path / "to"), tmp_path)
        spec = saving(tmp_path / "to", steps=6)
        the_plan = plan(shape_of(TEXT), ONE, spec.train)
        (ended,) = end_ranks(the_plan, spec, TEXT, tokens(tmp_path / "others", count=9_000), tmp_path)
        assert "other batches: the tokens of data.files" in ended.error_text

    @pytest.mark.parametrize("name", [".metadata", "__1_0.distcp"])
    def test_damaged(self, tmp_path, name):
        """A newest checkpoint that lost half of a file stops every rank with its folder's name."""
        train(saving(tmp_path / "to"), tmp_path, PAIR, zero=1)
        path = tmp_path / "to" / "step-00000004" / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        ended = train(saving(tmp_path / "to", steps=6), tmp_path, PAIR)
        assert {type(each.error) for each in ended} == {BadInputError}
        assert all(f"{path.parent}: a damaged checkpoint" in each.error_text for each in ended)


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of a given size; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a small file system needs root")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.slow
class TestFullDisk:
    """A file system that fills up."""

    @pytest.mark.parametrize("replicas", [ONE, PAIR], ids=["one rank", "three ranks"])
    def test_earlier_checkpoints_stay(self, tmp_path, small_disk, replicas):
        """With room for one checkpoint the second fails on every rank, the first stays, and nothing is half."""
        folder = small_disk("1100k") / "to"
        ended = train(saving(folder), tmp_path, replicas, zero=1)
        assert {(type(each.error), each.code) for each in ended} == {(InfrastructureError, 5)}
        assert all(f"disk full while saving a checkpoint in {folder}" in each.error_text for each in ended)
        assert names(folder) == ["step-00000002"]
        assert "it resumes" in ended[0].error_text

    def test_what_stayed_is_whole(self, tmp_path, small_disk):
        """The job goes on from the checkpoint that stayed once there is room."""
        folder = small_disk("1100k") / "to"
        train(saving(folder), tmp_path)
        subprocess.run(["mount", "-o", "remount,size=9m", str(folder.parent)], check=True)
        ended = train(saving(folder), tmp_path, PAIR)
        assert "at step 2" in notes(ended)
        assert saved_steps(ended) == [4]

    @pytest.mark.parametrize("replicas", [ONE, PAIR], ids=["one rank", "three ranks"])
    def test_last_file_does_not_fit(self, tmp_path, monkeypatch, replicas):
        """A disk that fills up with the very last file leaves nothing half-written either; needs no root."""
        real = checkpoint_module.write_info

        def full(folder, info):
            if info.step == 4:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(folder, info)

        monkeypatch.setattr(checkpoint_module, "write_info", full)
        ended = train(saving(tmp_path / "to"), tmp_path, replicas, zero=1)
        assert {(type(each.error), each.code) for each in ended} == {(InfrastructureError, 5)}
        assert names(tmp_path / "to") == ["step-00000002"]

    def test_no_room_at_all(self, tmp_path, small_disk):
        """Where not even the first fits, nothing is left behind."""
        folder = small_disk("200k") / "to"
        (ended,) = train(saving(folder), tmp_path)
        assert (ended.code, names(folder)) == (5, [])


@pytest.mark.slow
class TestBadFolder:
    """Places that can't be written."""

    @pytest.mark.parametrize("replicas", [ONE, PAIR], ids=["one rank", "three ranks"])
    def test_another_job_saves_there(self, tmp_path, replicas):
        """A folder that a running job holds is refused by every rank before the first step, and left alone."""
        (tmp_path / "to").mkdir()
        with (tmp_path / "to" / ".lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            ended = train(saving(tmp_path / "to"), tmp_path, replicas)
        assert {type(each.error) for each in ended} == {BadInputError}
        assert "another job that runs now saves to" in ended[0].error_text
        assert names(tmp_path / "to") == []

    def test_is_told_before_the_first_step(self, tmp_path):
        """A `to` below a file fails on every rank before any step was run."""
        (tmp_path / "file").write_text("x")
        ended = train(saving(tmp_path / "file" / "to"), tmp_path, PAIR)
        assert {each.code for each in ended} == {5}
        assert all("cannot save a checkpoint in" in each.error_text and each.said == () for each in ended)


@pytest.mark.slow
class TestKill:
    """SIGKILL in the middle of a save."""

    @pytest.mark.parametrize("moment", ["save_pieces", "_publish"])
    def test_leaves_no_half_checkpoint(self, tmp_path, monkeypatch, moment):
        """A rank killed while or just after writing step 4 leaves step 2 as the newest that resume would pick."""
        real, saves = getattr(checkpoint_module, moment), []

        def fatal(*given, **named):
            saves.append(1)
            if len(saves) == 2 and torch.distributed.get_rank() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        monkeypatch.setattr(checkpoint_module, moment, fatal)
        ended = train(saving(tmp_path / "to"), tmp_path, PAIR, zero=1)
        assert ended[0].code == -signal.SIGKILL
        assert names(tmp_path / "to") == ["step-00000002", "step-00000004.writing"]
        monkeypatch.undo()
        again = train(saving(tmp_path / "to"), tmp_path)
        assert "at step 2" in notes(again)
        assert names(tmp_path / "to") == ["step-00000002", "step-00000004"]


@pytest.mark.slow
class TestTensors:
    """What is in the files."""

    @pytest.mark.parametrize("text", [TEXT, config(4, tied=True, qk_norm=True)], ids=["llama", "tied, qk norms"])
    def test_are_the_same_from_any_plan(self, tmp_path, text):
        """After one step from the same weights, checkpoints of three unlike plans hold the same tensors."""
        found = []
        mixed = (replica([2, 2], 2, tp=2), replica([4], 2))
        for name, replicas, zero in (("a", ONE, 0), ("b", PAIR, 1), ("c", mixed, 1)):
            train(saving(tmp_path / name, steps=1), tmp_path, replicas, text=text, zero=zero)
            shape = read_config(text, "tiny")
            found.append(dict(whole_tensors(tmp_path / name / "step-00000001", shape)))
        for other in found[1:]:
            assert other.keys() == found[0].keys()
            for name, tensor in other.items():
                torch.testing.assert_close(tensor, found[0][name], rtol=1e-4, atol=2e-5)
