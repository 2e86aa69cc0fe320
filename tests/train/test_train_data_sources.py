"""Which files a data specification means."""

import os
from pathlib import Path

import pytest

from argosy.contracts.errors import BadInputError
from argosy.train.data.sources import find_files


def corpus(folder: Path, *names: str) -> Path:
    """Write small text files of these names and return their folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"This is {name}.\n")
    return folder


class TestFindFiles:
    def test_sorts_the_matches_of_a_glob(self, tmp_path: Path) -> None:
        """A glob's files come sorted by name, whatever the file system says."""
        folder = corpus(tmp_path, "b.txt", "a.txt", "c.md")
        assert [path.name for path in find_files([f"{folder}/*.txt"])] == ["a.txt", "b.txt"]

    def test_keeps_the_order_of_patterns_and_drops_doubles(self, tmp_path: Path) -> None:
        """Patterns count in the order given, and a file named twice is read once."""
        folder = corpus(tmp_path, "b.txt", "a.txt")
        assert [path.name for path in find_files([f"{folder}/b.txt", f"{folder}/*.txt"])] == ["b.txt", "a.txt"]

    def test_crosses_folders_with_two_stars(self, tmp_path: Path) -> None:
        """`**` finds files in folders below, and folders themselves are no matches."""
        folder = corpus(tmp_path, "x/y/deep.txt", "top.txt")
        assert [path.name for path in find_files([f"{folder}/**"])] == ["top.txt", "deep.txt"]

    def test_takes_a_name_with_brackets_literally(self, tmp_path: Path) -> None:
        """A file that is there is meant, even if its name looks like a glob."""
        folder = corpus(tmp_path, "part[1].txt")
        assert [path.name for path in find_files([f"{folder}/part[1].txt"])] == ["part[1].txt"]

    def test_stdlib_names_library_sources_only(self) -> None:
        """`stdlib:` is some hundreds of Python files, none of them tests or installed packages."""
        files = find_files(["stdlib:"])
        assert len(files) > 400
        assert not any({"site-packages", "test", "tests"} & set(path.parts) for path in files)

    def test_stdlib_is_sorted(self) -> None:
        """The built-in source has one order on every run."""
        files = find_files(["stdlib:"])
        assert list(files) == sorted(files)


class TestErrors:
    def test_names_the_nearest_files(self, tmp_path: Path) -> None:
        """A misspelt file is answered with the folder and the nearest names in it."""
        folder = corpus(tmp_path, "train.jsonl", "other.md")
        with pytest.raises(
            BadInputError, match=r'no file matches ".*trian\.jsonl".*holds 2 files; nearest: train\.jsonl'
        ):
            find_files([f"{folder}/trian.jsonl"])

    def test_names_the_nearest_folder(self, tmp_path: Path) -> None:
        """A misspelt folder is answered with the folders that are there."""
        corpus(tmp_path, "corpus/a.txt")
        with pytest.raises(BadInputError, match=r"there is no folder .*corpsu; nearest: corpus"):
            find_files([f"{tmp_path}/corpsu/*.txt"])

    @pytest.mark.parametrize(
        ("patterns", "said"),
        [
            ([], r"data\.files: empty"),
            (["{here}"], "is a folder; name its files"),
            (["{here}/*.none"], "the folder .* holds 4 files: a, b, c, ..."),
            (["{here}/none*/*/x"], "the folder .* holds"),
            (["stdlib:json"], 'the only one is "stdlib:"'),
        ],
    )
    def test_says_what_is_wrong(self, tmp_path: Path, patterns: list[str], said: str) -> None:
        """Every pattern without files gives one line that says why."""
        folder = corpus(tmp_path, "a", "b", "c", "d")
        with pytest.raises(BadInputError, match=said):
            find_files([pattern.format(here=folder) for pattern in patterns])

    def test_does_not_name_files_of_a_closed_folder(self, tmp_path: Path) -> None:
        """An empty folder is said to be empty."""
        os.mkdir(tmp_path / "empty")
        with pytest.raises(BadInputError, match="empty holds no file"):
            find_files([f"{tmp_path}/empty/*"])
