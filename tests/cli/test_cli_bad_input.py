"""Bad input of every kind: exit code, one screen that names file, value and what is allowed, nothing half-written."""

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.main import main
from argosy.contracts.codec import encode
from argosy.model.named import config_text
from support.runs import Workspace, argosy

SCREEN_LINES = 24
CONFIG = config_text("tiny")[0]


def refused(capsys: pytest.CaptureFixture[str], *settings: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Train and be refused; give the exit code and what was said, which fits one screen and leaves no run behind."""
    arguments = ["train", "job.yaml", "--fleet", "fleet.yaml", *options]
    for setting in settings:
        arguments += ["--set", setting]
    code = main(arguments)
    text = capsys.readouterr().err
    assert len(text.splitlines()) <= SCREEN_LINES
    assert "Traceback" not in text
    assert not Path("runs").exists()
    return code, text


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "old", "new", "code", "texts"),
        [
            ("job.yaml", "global_batch_size", "global_batch", 2, ("job.yaml:4:", "did you mean global_batch_size?")),
            ("job.yaml", "steps: 4", "steps: 4 hours", 2, ("job.yaml:4:", "4 hours", "whole number")),
            (
                "job.yaml",
                "name: tiny",
                "name: tiny\ntime_limit: 40 parsecs",
                2,
                ("job.yaml:2:", "parsecs", "units are"),
            ),
            ("job.yaml", "learning_rate: 3e-3", "learning_rate: -1", 2, ("job.yaml:4:", "learning_rate", "-1")),
            ("job.yaml", "model: tiny", "model: nothing/config.json", 2, ("job.yaml", "nothing/config.json")),
            ("job.yaml", "corpus.txt", "corpsu.txt", 2, ("job.yaml: data.files", "corpsu.txt", "corpus.txt")),
            ("job.yaml", "data:", "data: data:", 2, ("job.yaml:3:",)),
            ("fleet.yaml", "ascend-910b3", "910b3", 2, ("fleet.yaml:7:", "910b3", "ascend-910b3", "argosy chips")),
            ("fleet.yaml", "km: 50", "km: 50 miles", 2, ("fleet.yaml:4:", "50 miles")),
            ("fleet.yaml", "memory_gb: 1}", "memory_gb: 0.001}", 3, ("does not fit", "0.001")),
        ],
    )
    def test_mistakes_in_files(
        self,
        name: str,
        old: str,
        new: str,
        code: int,
        texts: tuple[str, ...],
        workspace: Workspace,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A mistake in a file is refused with its place, the value got and what is allowed."""
        path = workspace.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        found, said = refused(capsys)
        assert found == code, said
        assert [text for text in texts if text not in said] == [], said

    @pytest.mark.parametrize("name", ["job.yaml", "fleet.yaml"])
    def test_missing_files(self, name: str, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
        """A file that isn't there is named."""
        (workspace.folder / name).unlink()
        code, text = refused(capsys)
        assert code == 2
        assert f"{name}: there is no such" in text

    @pytest.mark.parametrize(
        ("content", "texts"),
        [
            ("", ("corpus.txt", "empty")),
            ("too short", ("job.yaml: data.files", "one sequence needs 33", "sequence_length to")),
        ],
    )
    def test_a_corpus_without_text(
        self, content: str, texts: tuple[str, ...], workspace: Workspace, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An empty corpus and one shorter than a sequence are refused, and the cache holds nothing half-made."""
        workspace.write("corpus.txt", content)
        code, text = refused(capsys)
        assert code == 2
        assert [part for part in texts if part not in text] == []
        left = [path for path in (workspace.folder / "cache").rglob("*") if "partial" in path.name]
        assert left == []

    def test_a_config_without_a_field(self, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
        """A config.json that lacks a field is refused with file and field."""
        lines = [line for line in CONFIG.splitlines() if "num_hidden_layers" not in line]
        workspace.write("config.json", "\n".join(lines))
        code, text = refused(capsys, "model=config.json")
        assert code == 2
        assert "config.json" in text
        assert "num_hidden_layers" in text

    @pytest.mark.parametrize(
        ("setting", "text"),
        [
            ("train.stepz=5", "--set train.stepz=5  train.stepz: unknown key; did you mean steps?"),
            ("train.steps", "--set train.steps"),
            ("initial_weights=nothing", "initial_weights: there is no folder nothing"),
            ("chips={allow: [h100]}", "h100"),
            ("data.tokenizer=train:4096", "4,096"),
        ],
    )
    def test_settings(self, setting: str, text: str, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
        """What `--set` gets wrong is told like the file's own mistakes."""
        code, said = refused(capsys, setting)
        assert code == 2
        assert text in said

    def test_json_says_it_too(self, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
        """With --json the last object on standard output is the result, with exit code and text."""
        assert main(["train", "job.yaml", "--fleet", "fleet.yaml", "--json", "--set", "model=gpt2"]) == 2
        line = capsys.readouterr().out.splitlines()[-1]
        assert '"type":"result","state":"refused","exit_code":2' in line
        assert "family gpt2" in line


class TestPlanFile:
    @pytest.mark.slow
    def test_tp_that_does_not_divide_heads(self, workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
        """A plan whose TP doesn't divide the model's heads is refused before anything starts."""
        path = workspace.folder / "fleet.yaml"
        path.write_text(path.read_text().replace("chips_per_node: 1", "chips_per_node: 3"))
        plan = choose(workspace.inputs("chips={max: 1}")).plans[0]
        stages = tuple(replace(stage, tp=3) for stage in plan.replicas[0].stages)
        odd = replace(plan, replicas=(replace(plan.replicas[0], stages=stages),))
        workspace.write("plan.json", encode(odd).decode())
        code, text = refused(capsys, options=("--plan", "plan.json"))
        assert code == 2
        assert "3" in text
        assert "heads" in text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a folder on a file system of 1 MB; skips where none can be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
class TestMachine:
    def test_port_in_use(self, workspace: Workspace) -> None:
        """A port that another process has is an infrastructure error with the port and the way out."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = argosy("train", "job.yaml", "--fleet", "fleet.yaml", "--port", str(port))
        assert done.returncode == 5
        assert f":{port}: Address already in use; another --port" in done.stderr

    def test_disk_full_while_saving(self, workspace: Workspace, small_disk: Path) -> None:
        """A checkpoint that finds no room ends the job with the folder named, and leaves nothing half-written."""
        done = argosy("train", "job.yaml", "--fleet", "fleet.yaml", "--set", f"checkpoint={{to: {small_disk}/ck}}")
        assert done.returncode == 5, done.stderr
        assert "disk full while saving a checkpoint" in done.stderr
        assert str(small_disk) in done.stderr
        assert len(done.stderr.splitlines()) <= SCREEN_LINES
        assert [path for path in small_disk.rglob("*") if path.is_file() and path.stat().st_size] == []

    def test_a_directory_that_cannot_be_made(self, workspace: Workspace) -> None:
        """A run's folder that can't be made is bad input that names it."""
        (workspace.folder / "file").touch()
        done = argosy("train", "job.yaml", "--fleet", "fleet.yaml", "--directory", "file/run")
        assert done.returncode == 2
        assert "file is no folder" in done.stderr
