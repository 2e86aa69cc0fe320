"""`argosy export`: which checkpoint a path means. That weights are right is tested with the trainer."""

from pathlib import Path

import pytest

from argosy.cli.export import command, find_checkpoint
from argosy.contracts.errors import BadInputError


def checkpoint(folder: Path, step: int) -> Path:
    """Make what looks like a checkpoint."""
    path = folder / f"step-{step:08d}"
    path.mkdir(parents=True)
    (path / "argosy.json").touch()
    return path


class TestFind:
    def test_a_checkpoint_itself(self, tmp_path: Path) -> None:
        """A checkpoint is taken as it is."""
        assert find_checkpoint(checkpoint(tmp_path, 3)) == tmp_path / "step-00000003"

    @pytest.mark.parametrize("inner", ["", "checkpoints"])
    def test_the_newest_of_several(self, inner: str, tmp_path: Path) -> None:
        """Of a folder of checkpoints, or a run that has one, the newest is taken."""
        for step in (5, 20, 10):
            checkpoint(tmp_path / inner, step)
        assert find_checkpoint(tmp_path).name == "step-00000020"

    def test_nothing_there(self, tmp_path: Path) -> None:
        """A folder without checkpoints, and no folder at all, are refused with what to give."""
        with pytest.raises(BadInputError, match=r"holds no checkpoint.*checkpoint\.to"):
            find_checkpoint(tmp_path)
        with pytest.raises(BadInputError, match="no such folder"):
            find_checkpoint(tmp_path / "x")

    def test_unknown_dtype(self, tmp_path: Path) -> None:
        """A dtype that can't be written is refused with those that can."""
        with pytest.raises(BadInputError, match="--dtype fp8: write one of fp32, bf16, fp16"):
            command(tmp_path, tmp_path / "out", "fp8")
