"""What tests of the command line share: a workspace, and a data cache of their own."""

from pathlib import Path

import pytest

from support.runs import Workspace, make_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Give a filled folder, current for the test, with its own cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARGOSY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return make_workspace(tmp_path)
