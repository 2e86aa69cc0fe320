"""`argosy profile`, and plans by what it wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.machine import find_group, read_degrees
from argosy.cli.main import main
from argosy.contracts.codec import decode
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import NodeGroup
from argosy.contracts.profile import Profile, ProfileEntry, ProfileTable
from argosy.train import profiling

JOB = """kind: train
name: small
model: tiny
data: {files: x.txt, tokenizer: bytes}
train: {sequence_length: 64, global_batch_size: 8, steps: 4, precision: fp32}
"""
FLEET = """fleet: cores
sites: {here: {}}
nodes: [{site: here, chip: cpu, chips_per_node: 2, count: 1}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a job and a fleet of two cores; measuring is left to a stand-in of 1 ms a unit."""

    def measured(asked: profiling.Asked, copies: int = 1) -> tuple[ProfileEntry, ...]:
        units = dict.fromkeys(profiling.describe_unit(asked.shape, unit) for unit in asked.shape.units)
        return tuple(
            ProfileEntry(unit=unit, forward_ms=1.0, backward_ms=2.0, update_ms=0.5, microbatch_size=size)
            for unit in units
            for size in asked.microbatch_sizes
        )

    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("argosy.cli.profile.measure", measured)
    return tmp_path


class TestProfile:
    def test_it_writes_what_a_plan_reads(self, folder: Path, capsys: Any) -> None:
        """The file has the job's precision and length, and a plan by it takes the times that were measured."""
        assert main(["profile", "job.yaml", "--out", "p.json", "--chip", "cpu"]) == 0
        assert "entries for cpu" in capsys.readouterr().out
        profile = decode((folder / "p.json").read_text(), Profile)
        assert [(t.chip, t.precision, t.sequence_length) for t in profile.tables] == [("cpu", "fp32", 64)]
        plan = ["plan", "job.yaml", "--fleet", "fleet.yaml", "--json"]
        assert main([*plan, "--profile", "p.json"]) == 0
        best = json.loads(capsys.readouterr().out)["plans"][0]
        replica = best["replicas"][0]
        work = sum(stage["forward_ms"] + stage["backward_ms"] for stage in replica["stages"])
        assert work == pytest.approx(3.0 * (best["num_layers"] + 2))

    def test_holes_are_told(self, folder: Path, capsys: Any) -> None:
        """A plan that needs what was not measured is refused, naming it."""
        assert main(["profile", "job.yaml", "--out", "p.json", "--chip", "cpu"]) == 0
        changed = ["--set", "train.sequence_length=128"]
        assert main(["plan", "job.yaml", "--fleet", "fleet.yaml", "--profile", "p.json", *changed]) == 3
        assert "it has cpu in fp32 at 64 tokens" in capsys.readouterr().err

    def test_bad_profiles_are_told(self, folder: Path, capsys: Any) -> None:
        """A profile that is missing, none, or of an unknown chip is an error of the user's."""
        table = ProfileTable(chip="cpuu", precision="fp32", sequence_length=64, entries=())
        (folder / "bad.json").write_bytes(json.dumps({"tables": [{"chip": table.chip}]}).encode())
        plan = ["plan", "job.yaml", "--fleet", "fleet.yaml", "--profile"]
        assert main([*plan, "none.json"]) == 2
        assert "none.json" in capsys.readouterr().err
        assert main([*plan, "bad.json"]) == 2
        assert "`argosy profile` writes such files" in capsys.readouterr().err


class TestDegrees:
    def test_degrees_of_a_node(self) -> None:
        """Degrees are listed with commas; more than a machine has chips, or none, are refused."""
        assert read_degrees("2, 1,2", 2) == (1, 2)
        for text in ("", "0", "4", "two"):
            with pytest.raises(BadInputError, match="write degrees from 1 to 2"):
                read_degrees(text, 2)


class TestGroup:
    def test_which_chips(self) -> None:
        """The only kind of a machine is taken, of several one must be named, and none that isn't there."""
        groups = tuple(NodeGroup(site="here", chip=chip, chips_per_node=1, count=1) for chip in ("a", "b"))
        assert find_group(groups[:1], "").chip == "a"
        assert find_group(groups, "b").chip == "b"
        with pytest.raises(BadInputError, match="this machine has a, b; name one by --chip"):
            find_group(groups, "")
        with pytest.raises(BadInputError, match="--chip c: this machine has a, b"):
            find_group(groups, "c")
