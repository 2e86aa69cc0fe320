"""What `argosy plan` refuses of a job and its options before and after planning, and the files it leaves alone."""

from pathlib import Path
from typing import Any

import pytest

from argosy.cli.asking import telling_terms, terms_text
from argosy.cli.main import main
from argosy.contracts.errors import NeverFitsError
from argosy.plan.forms import find_form
from support.plan_files import write_files


class TestModel:
    def test_sequences_beyond_the_positions(self, tmp_path: Path, capsys: Any) -> None:
        """GPT-2 knows 1,024 positions: longer sequences are refused with the key, before anything is planned."""
        files = write_files(tmp_path)
        assert main([*files, "--set", "model=gpt2", "--set", "train.sequence_length=1025"]) == 2
        told = capsys.readouterr().err
        assert "job.yaml: train.sequence_length: got 1,025; gpt2 has a learned table of 1,024 positions" in told

    def test_the_same_of_fronts(self, tmp_path: Path, capsys: Any) -> None:
        """A front is refused for the same reasons as a plan."""
        files = write_files(tmp_path)
        assert main([*files, "--pareto", "--set", "model=gpt2", "--set", "train.sequence_length=1025"]) == 2
        assert "1,024 positions" in capsys.readouterr().err
        assert main([*files, "--pareto", "--for", "torchtitan"]) == 2
        assert "torchtitan 0.3.0 has no model of the sizes of tiny" in capsys.readouterr().err


class TestTerms:
    @pytest.mark.parametrize(
        ("runnable", "framework", "text", "option"),
        [
            (True, None, "only plans that Argosy's trainer runs", "without --runnable"),
            (False, "flagscale", "only plans that flagscale runs", "without --for"),
        ],
    )
    def test_told_with_a_refusal(self, runnable: bool, framework: str | None, text: str, option: str) -> None:
        """Where nothing fits, what alone was looked for is told, for without it something may."""
        form = find_form(framework) if framework else None
        assert terms_text(runnable=runnable, form=form) == text
        looked = pytest.raises(NeverFitsError, match=f"(?s)too large.*{text}; {option}")
        with looked, telling_terms(runnable=runnable, form=form):
            raise NeverFitsError("too large")

    def test_none(self) -> None:
        """Where any plan will do, a refusal stays as it is."""
        assert terms_text(runnable=False, form=None) == ""
        with pytest.raises(NeverFitsError, match=r"^too large$"), telling_terms(runnable=False, form=None):
            raise NeverFitsError("too large")


class TestFiles:
    def test_over_what_is_read(self, tmp_path: Path, capsys: Any) -> None:
        """No output replaces the job or the fleet, whatever way their names are written."""
        files = write_files(tmp_path)
        for name in ("job.yaml", "fleet.yaml"):
            before = (tmp_path / name).read_text()
            assert main([*files, "--trace", str(tmp_path / "." / name)]) == 2
            assert f"{name} is read; name another file" in capsys.readouterr().err
            assert (tmp_path / name).read_text() == before

    def test_of_a_profile(self, tmp_path: Path, capsys: Any) -> None:
        """Nor does a profile replace the job that it is measured for."""
        job = write_files(tmp_path)[1]
        assert main(["profile", job, "--out", job]) == 2
        assert "--out: " in capsys.readouterr().err
