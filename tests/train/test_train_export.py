"""From a checkpoint of any plan to a folder that Hugging Face's loaders read."""

from pathlib import Path

import pytest
import torch

from argosy.contracts.errors import BadInputError
from argosy.train.export import export_checkpoint, whole_tensors
from argosy.train.weights.importing import open_hf
from support.training import config, job, plan, replica, run_plan, shape_of, tokens

TEXT = config(4, tied=True)
SHAPE = shape_of(TEXT)
PLANS = {
    "one process": ([replica([4], 4)], 0),
    "uneven, sharded": ([replica([1, 3], 2), replica([4], 2)], 1),
    "TP beside none": ([replica([2, 2], 2, tp=2), replica([4], 2)], 1),
}


def trained(tmp: Path, name: str = "one process") -> Path:
    """Train one step under a plan; gives its checkpoint."""
    replicas, zero = PLANS[name]
    spec = job(steps=1, batch=4, to=tmp / "to")
    run_plan(plan(SHAPE, replicas, spec.train, zero=zero), spec, TEXT, tokens(tmp / "tokens"), tmp)
    return tmp / "to" / "step-00000001"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """Give a checkpoint of one process."""
    return trained(tmp_path_factory.mktemp("trained"))


@pytest.mark.slow
class TestExport:
    """A whole folder or none."""

    @pytest.mark.parametrize("name", PLANS)
    def test_holds_what_was_trained(self, tmp_path, name):
        """Whatever plan wrote the checkpoint, the folder's tensors are its tensors, bit for bit."""
        folder = trained(tmp_path, name)
        export_checkpoint(folder, tmp_path / "out")
        trained_tensors = dict(whole_tensors(folder, SHAPE))
        with open_hf(tmp_path / "out", SHAPE) as reader:
            assert set(reader.names) == trained_tensors.keys()
            assert all(torch.equal(reader.tensor(name), tensor) for name, tensor in trained_tensors.items())

    def test_in_bf16(self, checkpoint, tmp_path):
        """Narrower numbers are the rounded ones."""
        export_checkpoint(checkpoint, tmp_path / "out", dtype="bf16")
        with open_hf(tmp_path / "out", SHAPE) as reader:
            for name, tensor in whole_tensors(checkpoint, SHAPE):
                assert torch.equal(reader.tensor(name), tensor.bfloat16().float())

    def test_says_nothing_on_the_way(self, checkpoint, tmp_path, recwarn, capfd):
        """Reading alone, without a world, gives no warning."""
        export_checkpoint(checkpoint, tmp_path / "out")
        assert [str(w.message) for w in recwarn] == []
        assert capfd.readouterr() == ("", "")

    def test_refuses_a_folder_of_something_else(self, checkpoint, tmp_path):
        """A folder that holds other files is left as it is."""
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis.tex").write_text("x")
        with pytest.raises(BadInputError, match=r"thesis\.tex"):
            export_checkpoint(checkpoint, tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]

    def test_damaged_checkpoint_leaves_nothing(self, tmp_path):
        """A checkpoint that lost half of a file is named, and no folder appears."""
        path = trained(tmp_path) / "__0_0.distcp"
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(BadInputError, match="step-00000001: a damaged checkpoint"):
            export_checkpoint(path.parent, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_no_checkpoint(self, tmp_path):
        """A folder that is no checkpoint is named."""
        with pytest.raises(BadInputError, match="not a checkpoint"):
            export_checkpoint(tmp_path, tmp_path / "out")
