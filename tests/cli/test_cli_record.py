"""The folder of a run."""

from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.record import Record, read_steps
from argosy.contracts.codec import decode
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.job import Job
from argosy.contracts.messages import Ready
from argosy.contracts.plan import Plan
from support.runs import Workspace, step


def ready(at: int) -> Ready:
    """Make the word of a rank that begins at a step."""
    return Ready(step=at, pid=1)


def recorded(folder: Path, begin: int, numbers: range) -> list[int]:
    """Record an attempt that begins at a step; give the steps in the file."""
    with Record(folder) as record:
        for message in (ready(begin), ready(begin), *map(step, numbers)):
            record.take(message)
        assert record.new_steps == len(numbers)
    return [done.step for done in read_steps(folder / "steps.jsonl")]


class TestSteps:
    def test_every_step_is_a_line(self, tmp_path: Path) -> None:
        """A fresh run's file has its steps in order."""
        assert recorded(tmp_path / "run", 0, range(1, 5)) == [1, 2, 3, 4]

    def test_a_resumed_run_goes_on(self, tmp_path: Path) -> None:
        """Steps up to the checkpoint stay, those after it are replaced."""
        recorded(tmp_path, 0, range(1, 8))
        assert recorded(tmp_path, 5, range(6, 9)) == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_a_fresh_run_starts_over(self, tmp_path: Path) -> None:
        """A run from step 0 forgets the curve of the one before."""
        recorded(tmp_path, 0, range(1, 8))
        assert recorded(tmp_path, 0, range(1, 3)) == [1, 2]

    def test_a_cut_line_is_passed_over(self, tmp_path: Path) -> None:
        """What a killed process left half-written does not stop the next."""
        recorded(tmp_path, 0, range(1, 3))
        with (tmp_path / "steps.jsonl").open("a") as file:
            file.write('{"type":"step_done","st')
        assert recorded(tmp_path, 2, range(3, 4)) == [1, 2, 3]

    def test_no_file_no_steps(self, tmp_path: Path) -> None:
        """A file that isn't there has no steps."""
        assert read_steps(tmp_path / "nothing") == []


class TestFolder:
    def test_says_what_runs(self, workspace: Workspace) -> None:
        """Job and plan are written as contracts, and logs of an earlier run are cleared away."""
        inputs = workspace.inputs()
        plan = choose(inputs).plan
        stale = workspace.folder / "run" / "logs" / "rank-7.log"
        stale.parent.mkdir(parents=True)
        stale.touch()
        with Record(workspace.folder / "run") as record:
            record.begin(inputs.job, plan)
        assert decode((workspace.folder / "run/job.json").read_text(), Job) == inputs.job
        assert decode((workspace.folder / "run/plan.json").read_text(), Plan) == plan
        assert not stale.exists()

    def test_one_run_at_a_time(self, tmp_path: Path) -> None:
        """A folder in use is refused, and free again afterwards."""
        with (
            Record(tmp_path),
            pytest.raises(BadInputError, match=r"another `argosy train` runs.*--directory"),
            Record(tmp_path),
        ):
            pass
        with Record(tmp_path):
            pass

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        """A folder that can't be made is an infrastructure error that names it."""
        (tmp_path / "file").touch()
        with pytest.raises(InfrastructureError, match=r"file/run: can't be written"), Record(tmp_path / "file" / "run"):
            pass
