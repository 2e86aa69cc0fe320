"""Text files that a person names."""

import os
from pathlib import Path

import pytest

from argosy.cli.files import check_apart, check_ending, check_file, read_text, write_text
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

    @pytest.mark.parametrize("content", ["full", None])
    def test_names_what_cannot_be_written(self, content: str | None, tmp_path: Path) -> None:
        """A folder, empty or not, is an infrastructure error that names it, and stays as it was."""
        (tmp_path / "a").mkdir()
        if content:
            (tmp_path / "a" / content).touch()
        with pytest.raises(InfrastructureError, match="a: can't be written"):
            write_text(tmp_path / "a", "x")
        assert os.listdir(tmp_path) == ["a"]
        assert (tmp_path / "a").is_dir()

    @pytest.mark.parametrize("there", [True, False])
    def test_a_link_stays(self, there: bool, tmp_path: Path) -> None:
        """What a link leads to is written, be it there or not yet, and the link leads to it as before."""
        (tmp_path / "deep").mkdir()
        target, link = tmp_path / "deep" / "real", tmp_path / "link"
        if there:
            target.write_text("old")
        link.symlink_to(target)
        write_text(link, "new")
        assert link.is_symlink()
        assert target.read_text() == "new"
        assert os.listdir(tmp_path / "deep") == ["real"]

    def test_a_device_stays(self, tmp_path: Path) -> None:
        """A device, here by a link, is written to, never replaced."""
        link = tmp_path / "null"
        link.symlink_to("/dev/null")
        write_text(link, "x")
        assert link.is_symlink()
        assert Path("/dev/null").is_char_device()

    def test_a_pipe_stays(self, tmp_path: Path) -> None:
        """A pipe is written to; its reader gets the text."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        write_text(pipe, "hello")
        assert os.read(reading, 100) == b"hello"
        os.close(reading)
        assert pipe.is_fifo()

    def test_standard_output_by_its_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`/dev/stdout` is standard output, though libraries' words go elsewhere."""
        write_text(Path("/dev/stdout"), "hello")
        assert capsys.readouterr().out == "hello"

    def test_a_long_name(self, tmp_path: Path) -> None:
        """A name of as many bytes as a file may have leaves room for the one beside it."""
        write_text(tmp_path / ("a" * 255), "x")
        assert os.listdir(tmp_path) == ["a" * 255]


class TestChecks:
    def test_a_folder_is_told_before(self, tmp_path: Path) -> None:
        """A folder where a file should be is refused before time is spent on the file."""
        with pytest.raises(BadInputError, match=r"--trace: .* is a folder; name a file"):
            check_file(tmp_path, "--trace")

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        """So is a file where a folder should be."""
        (tmp_path / "a").touch()
        with pytest.raises(BadInputError, match=r"--trace: .*a is no folder"):
            check_file(tmp_path / "a" / "b.json", "--trace")

    def test_endings(self) -> None:
        """A picture's name says its kind."""
        check_ending(Path("a.SVG"), "--timeline", (".svg",))
        with pytest.raises(BadInputError, match=r"--timeline a\.png: write a name that ends in \.svg"):
            check_ending(Path("a.png"), "--timeline", (".svg",))


class TestApart:
    def test_twice(self, tmp_path: Path) -> None:
        """Two outputs into one file are refused, through a link too."""
        (tmp_path / "a").write_text("")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(BadInputError, match=r"--export megatron: .*b is written by --trace already"):
            check_apart([], [("--trace", tmp_path / "a"), ("--export megatron", tmp_path / "b")])

    def test_apart(self, tmp_path: Path) -> None:
        """Files of their own, options that were not given, and a device that takes anything are no trouble."""
        null = Path(os.devnull)
        check_apart([tmp_path / "job", None], [("--trace", tmp_path / "a"), ("--plot", None)])
        check_apart([null], [("--trace", null), ("--timeline", null)])
