"""What is told before planning."""

import socket
from pathlib import Path

import pytest

from argosy.cli.before import check_before, check_port
from argosy.cli.jobs import shadow_note
from argosy.contracts.errors import BadInputError, InfrastructureError
from support.runs import Workspace


class TestBefore:
    def test_a_sound_job_passes(self, workspace: Workspace) -> None:
        """A job whose folders and files are in order is let through."""
        check_before(workspace.inputs(), Path("runs/new"), 0)

    @pytest.mark.parametrize("key", ["checkpoint.to", "export_to"])
    def test_a_file_is_no_folder(self, key: str, workspace: Workspace) -> None:
        """Where a folder is wanted, a file or what lies below one is refused by its key."""
        with pytest.raises(BadInputError, match=f"{key}: .*corpus.txt is no folder"):
            check_before(workspace.inputs(f"{key}=corpus.txt/x"), Path("new"), 0)

    def test_the_runs_folder(self, workspace: Workspace) -> None:
        """The run's folder can't be a file."""
        with pytest.raises(BadInputError, match=r"--directory: corpus\.txt is no folder"):
            check_before(workspace.inputs(), Path("corpus.txt"), 0)

    def test_other_machines(self, workspace: Workspace) -> None:
        """A fleet of several real machines is refused before it is planned."""
        text = Path("fleet.yaml").read_text().replace("emulate: {tflops: 0.004, memory_gb: 1}", "nics: 1x100G")
        workspace.write("fleet.yaml", text.replace("emulate: {tflops: 0.002, memory_gb: 1}", "nics: 1x100G"))
        with pytest.raises(BadInputError, match=r"fleet\.yaml: the fleet has 2 machines"):
            check_before(workspace.inputs(), Path("new"), 0)

    def test_a_port_in_use(self) -> None:
        """A port that somebody listens on is an infrastructure error that names it."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(InfrastructureError, match=f"can't listen on 127.0.0.1:{taken.getsockname()[1]}"):
                check_port(taken.getsockname()[1])

    def test_a_shadowed_folder(self, workspace: Workspace) -> None:
        """A named configuration that hides a folder here is noted."""
        assert shadow_note("tiny") == ""
        (workspace.folder / "tiny").mkdir()
        assert "write ./tiny" in shadow_note("tiny")
