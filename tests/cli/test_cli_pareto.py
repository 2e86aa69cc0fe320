"""`argosy plan --pareto`, from files to table, JSON and picture."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.main import main
from argosy.contracts.codec import decode
from argosy.plan.folding import Folded, unfold
from argosy.plan.timing.check import check_plan
from support.plan_files import write_files

FLEET = """
fleet: twins
sites: {north: {}, south: {}}
long_links: [{between: [north, south], km: 50, gbps: 100}]
nodes:
  - {site: north, chip: h800-sxm, chips_per_node: 2, count: 2, nics: 2x400G}
  - {site: south, chip: ascend-910b3, chips_per_node: 2, count: 1, nics: 2x200G}
"""
JOB = """
name: job
model: tiny
data: {files: x.txt}
train: {sequence_length: 2048, global_batch_size: 512, steps: 5}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write a job and a fleet; answers the arguments that ask for the front."""
    return [*write_files(tmp_path, JOB, FLEET), "--pareto"]


class TestPareto:
    @pytest.mark.slow
    def test_table_and_pictures(self, files: list[str], tmp_path: Path, capsys: Any) -> None:
        """A table names the chips, what each plan is best at and how many there are; pictures are written beside."""
        for name in ("front.svg", "front.html"):
            assert main([*files, "--plot", str(tmp_path / name)]) == 0
        text = capsys.readouterr().out
        assert all(
            part in text for part in ("tiny   512 x 2,048 tokens a step", "h800-sxm", "fastest", "cheapest", "beats")
        )
        assert max(len(line) for line in text.splitlines()) <= 110
        assert (tmp_path / "front.svg").read_text().startswith("<svg")
        assert "<svg" in (tmp_path / "front.html").read_text()

    @pytest.mark.slow
    def test_json(self, files: list[str], capsys: Any) -> None:
        """JSON has every plan with its figures; the folded plans are whole ones again when unfolded."""
        assert main([*files, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        speeds = [row["tokens_per_second"] for row in told["front"]]
        assert speeds == sorted(speeds, reverse=True)
        for row in told["front"]:
            plan = unfold(decode(json.dumps(row["folded"]), Folded))
            check_plan(plan)
            assert plan.world_size == row["chips"] == sum(row["chips_by_class"].values())
        assert all({"tokens_per_second", "gap", "power_kw"} <= set(row) for row in [*told["front"], *told["beaten"]])

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["--plot", "front.png"], "--plot front.png: write a name that ends in .svg or .html"),
            (["--trace", "t.json"], "about one; choose"),
        ],
    )
    def test_usage(self, files: list[str], capsys: Any, arguments: list[str], text: str) -> None:
        """A picture of no known kind, and flags that ask for one plan, are refused before anything is planned."""
        assert main([*files, *arguments]) == 2
        assert text in capsys.readouterr().err
