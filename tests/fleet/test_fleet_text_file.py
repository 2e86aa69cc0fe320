"""Text files that a person names."""

import os
from pathlib import Path

import pytest

from argosy.contracts.errors import BadInputError
from argosy.fleet.text_file import read_text_file


class TestRefusals:
    def test_devices_and_pipes(self, tmp_path: Path) -> None:
        """What has no end, or nobody at the other end, is not read."""
        os.mkfifo(tmp_path / "pipe")
        for path in (Path("/dev/zero"), tmp_path / "pipe"):
            with pytest.raises(BadInputError, match="device, pipe or socket"):
                read_text_file(path, "job file", "")

    def test_too_long(self, tmp_path: Path) -> None:
        """A file over the bound is refused, one at the bound is read."""
        (tmp_path / "a").write_text("12345")
        assert read_text_file(tmp_path / "a", "job file", "", 5) == "12345"
        with pytest.raises(BadInputError, match="more than 4 bytes, which is no job file"):
            read_text_file(tmp_path / "a", "job file", "", 4)

    def test_a_link_to_nothing(self, tmp_path: Path) -> None:
        """A link whose end is absent is told as that."""
        (tmp_path / "a").symlink_to("gone")
        with pytest.raises(BadInputError, match="is a link to gone, which isn't there"):
            read_text_file(tmp_path / "a", "job file", "")
