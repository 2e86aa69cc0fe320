"""`argosy demo`: its files, its plan, and a short run."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.demo_inputs import ACROSS_SITES, across_sites, demo_inputs
from argosy.cli.demo_screen import done_text, plan_text
from support.runs import Workspace, argosy, ended_run


class TestFiles:
    @pytest.mark.parametrize(("name", "example"), [("job.yaml", "jobs/demo.yaml"), ("fleet.yaml", "fleets/demo.yaml")])
    def test_examples_are_the_demo(self, name: str, example: str, repository: Path) -> None:
        """The examples show the very files that the demo runs."""
        packaged = (files("argosy.cli") / "demo_files" / name).read_text("utf-8")
        assert (repository / "examples" / example).read_text("utf-8") == packaged


class TestPlan:
    def test_two_sites_two_kinds_two_shapes(self) -> None:
        """The demo trains one replica a site, of different shapes, on all of its few chips."""
        plan = choose(demo_inputs(60)).plan
        assert {tuple(dict.fromkeys(s.chip_class for s in r.stages)) for r in plan.replicas} == {
            ("north/h800-sxm",),
            ("south/ascend-910b3",),
        }
        assert len({(len(replica.stages), replica.microbatches) for replica in plan.replicas}) == 2
        assert 5 <= plan.world_size <= 8

    def test_operations_are_long_enough_to_pace(self) -> None:
        """A forward takes at least 10 ms on the emulated clock, so that sleeping is exact enough."""
        plan = choose(demo_inputs(60)).plan
        assert min(stage.forward_ms for replica in plan.replicas for stage in replica.stages) >= 10

    def test_few_steps_have_a_short_warm_up(self) -> None:
        """Fewer steps than the warm-up has shorten it."""
        assert demo_inputs(2).job.train.warmup_steps == 2
        assert demo_inputs(60).job.train.steps == 60

    def test_holds_two_sites_against_one(self, workspace: Workspace) -> None:
        """The same chips in one site are a little faster, never by much."""
        inputs = demo_inputs(60)
        choice = choose(inputs)
        run = ended_run(inputs, choice)
        assert run.measured is not None
        (line,) = across_sites(inputs)(choice, run.measured)
        assert line.what == ACROSS_SITES
        assert 96 <= float(line.predicted.strip("~ %")) <= 100


class TestWords:
    def test_the_plan_in_a_line(self) -> None:
        """Every replica is told with site, stages, layers and micro-batches."""
        text = plan_text(choose(demo_inputs(60)).plan)
        assert text.startswith("2 replicas: north ")
        assert "south" in text
        assert "predicted ~" in text

    def test_the_end_in_a_line(self, workspace: Workspace) -> None:
        """The last line holds measured beside predicted and the headlines."""
        run = ended_run(workspace.inputs())
        text = done_text(run)
        assert text.startswith("measured ~100.0 ms a step (predicted ~")


@pytest.mark.slow
class TestRun:
    def test_a_short_demo(self, workspace: Workspace) -> None:
        """Three steps show data, plan, steps and figures, and leave report and trace."""
        done = argosy("demo", "--steps", "3")
        assert done.returncode == 0, done.stderr
        labels = [line.split(" ")[0] for line in done.stdout.splitlines() if line]
        assert [labels[0], labels[-3], labels[-2], labels[-1]] == ["argosy", "report", "trace", "done"]
        assert "mixed efficiency ~" in done.stdout
        assert "across sites ~" in done.stdout
        assert json.loads(Path("runs/demo/trace.json").read_text())["otherData"]["emulated"] is True
        assert "measured, step 2" in Path("runs/demo/report.html").read_text()
