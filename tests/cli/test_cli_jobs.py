"""A job file, its model, its deadline."""

import datetime
from pathlib import Path

import pytest

from argosy.cli.jobs import load_job, load_model, seconds_left, told_of
from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.job import Job
from support.runs import Workspace

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def job(workspace: Workspace, *settings: str) -> Job:
    """Read the workspace's job."""
    return load_job(Path("job.yaml"), settings)


class TestToldOf:
    def test_keeps_the_class(self) -> None:
        """The file comes first and the error's class, its exit code, stays."""
        with pytest.raises(NeverFitsError, match=r"^job\.yaml: too large$"), told_of("job.yaml"):
            raise NeverFitsError("too large")

    def test_only_about(self) -> None:
        """An error that names another file is left alone."""
        with pytest.raises(BadInputError, match=r"^corpus\.txt:3"), told_of("job.yaml", "data."):
            raise BadInputError("corpus.txt:3: broken")


class TestModel:
    def test_named(self, workspace: Workspace) -> None:
        """A named model gives its shape and text."""
        shape, text = load_model(job(workspace), "job.yaml")
        assert shape.num_layers == 4
        assert "LlamaForCausalLM" in text

    def test_unknown_names_the_job_file(self, workspace: Workspace) -> None:
        """A model that isn't known is told of the job file, with near names."""
        with pytest.raises(BadInputError, match=r"^job\.yaml: model 'tinny'.*tiny"):
            load_model(job(workspace, "model=tinny"), "job.yaml")


class TestDeadline:
    def test_none_without_one(self, workspace: Workspace) -> None:
        """A job without a deadline has no time left to count."""
        assert seconds_left(job(workspace), NOW) is None

    @pytest.mark.parametrize("text", ["9999-12-31", "9999-12-31T23:59:59.999999-12:00", "9999-12-31T00:00+14:00"])
    def test_the_last_day(self, text: str, workspace: Workspace) -> None:
        """The end of the calendar is a deadline like another."""
        left = seconds_left(job(workspace, f"objective={{deadline: '{text}'}}"), NOW)
        assert left is not None
        assert left > 2e11

    @pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01T00:00+14:00"])
    def test_the_first_day(self, text: str, workspace: Workspace) -> None:
        """Its beginning has passed."""
        with pytest.raises(BadInputError, match="has passed"):
            seconds_left(job(workspace, f"objective={{deadline: '{text}'}}"), NOW)

    @pytest.mark.parametrize(
        ("text", "seconds"), [("2026-03-01T13:00", 3600.0), ("2026-03-01T13:00+01:00", None), ("2026-03-01", 43_200.0)]
    )
    def test_counts_to_it(self, text: str, seconds: float | None, workspace: Workspace) -> None:
        """Without a zone it is local time, a bare date ends with its day, and one in the past is refused."""
        asked = job(workspace, f"objective={{deadline: '{text}'}}")
        if seconds is None:
            with pytest.raises(BadInputError, match="has passed"):
                seconds_left(asked, NOW)
        else:
            assert seconds_left(asked, NOW) == seconds
