"""Text files that a person names."""

import os
from pathlib import Path

import pytest

from argosy.cli.files import read_text, write_text
from argosy.contracts.errors import BadInputError, InfrastructureError


class TestRead:
    def test_reads_text(self, tmp_path: Path) -> None:
        """A UTF-8 file is read as it is."""
        (tmp_path / "a.yaml").write_text("grüße", encoding="utf-8")
        assert read_text(tmp_path / "a.yaml", "job file", "h") == "grüße"

    def test_absent_names_others(self, tmp_path: Path) -> None:
        """A file that isn't there is told with what is."""
        (tmp_path / "job.yaml").touch()
        with pytest.raises(
            BadInputError, match=r"jobb\.yaml: there is no such job file; there are job\.yaml; write it"
        ):
            read_text(tmp_path / "jobb.yaml", "job file", "write it")

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        """A folder is no file."""
        with pytest.raises(BadInputError, match="can't read this job file"):
            read_text(tmp_path, "job file", "h")

    def test_not_utf8(self, tmp_path: Path) -> None:
        """Bytes that are no UTF-8 are refused by name."""
        (tmp_path / "a.yaml").write_bytes(b"\xff\xfe")
        with pytest.raises(BadInputError, match=r"a\.yaml"):
            read_text(tmp_path / "a.yaml", "job file", "h")


class TestWrite:
    def test_writes_whole_with_usual_rights(self, tmp_path: Path) -> None:
        """The file is there with the user's usual rights, and nothing lies beside it."""
        write_text(tmp_path / "new" / "a.html", "hello")
        assert os.listdir(tmp_path / "new") == ["a.html"]
        (tmp_path / "new" / "plain").touch()
        assert (tmp_path / "new" / "a.html").stat().st_mode == (tmp_path / "new" / "plain").stat().st_mode

    def test_replaces(self, tmp_path: Path) -> None:
        """An older file is replaced."""
        write_text(tmp_path / "a", "1")
        write_text(tmp_path / "a", "2")
        assert (tmp_path / "a").read_text() == "2"

    def test_names_what_cannot_be_written(self, tmp_path: Path) -> None:
        """A place that takes no file is an infrastructure error that names it, and leaves nothing."""
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "full").touch()
        with pytest.raises(InfrastructureError, match="a: can't be written"):
            write_text(tmp_path / "a", "x")
        assert os.listdir(tmp_path) == ["a"]
