"""A plan's step as files."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.cli import plan_files
from argosy.cli.choosing import choose
from argosy.cli.plan_files import timeline_svg, write_step
from argosy.contracts.plan import Plan
from argosy.plan.timing.timeline import simulate
from argosy.plan.timing.trace import shown_replicas
from support.runs import Workspace

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def plan(workspace: Workspace) -> Plan:
    """Plan the workspace's job, with a chip whose name needs escaping."""
    found = choose(workspace.inputs()).plan
    replicas = tuple(
        replace(r, stages=tuple(replace(s, chip_class="north/<chip>") for s in r.stages)) for r in found.replicas
    )
    return replace(found, replicas=replicas)


class TestPicture:
    def test_stands_alone(self, plan: Plan) -> None:
        """The picture is XML with its own colours and one box for each op and exchange, whatever a chip is called."""
        timeline = simulate(plan)
        root = ElementTree.fromstring(timeline_svg(plan, timeline))
        boxes = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
        assert len(boxes) == len(timeline.ops) + len(timeline.moved)
        assert "rect.F" in (root.findtext(f"{SVG}style") or "")

    def test_says_what_is_emulated_and_left_out(self, plan: Plan) -> None:
        """Emulated times are marked and named as such, replicas that are not drawn are counted."""
        many = replace(plan, replicas=plan.replicas[:1] * 1000)
        text = timeline_svg(many, simulate(plan))
        assert "(emulated)" in text
        assert ": one step, ~" in text
        assert f"{1000 - len(shown_replicas(many))} like replicas not shown" in text


class TestFiles:
    def test_both(self, plan: Plan, workspace: Workspace) -> None:
        """Trace and picture are written where they are asked for."""
        write_step(plan, Path("t.json"), Path("p.svg"))
        assert json.loads(Path("t.json").read_text())["otherData"]["emulated"] is True
        assert Path("p.svg").read_text().startswith("<svg")

    def test_as_a_page(self, plan: Plan, workspace: Workspace) -> None:
        """A picture whose name ends in .html is a page that holds the same drawing."""
        for name in ("p.svg", "p.HTML"):
            write_step(replace(plan, fleet="a <b>"), None, Path(name))
        drawing, page = (Path(name).read_text().strip() for name in ("p.svg", "p.HTML"))
        assert page.startswith("<!DOCTYPE html>")
        assert "<title>tiny on a &lt;b&gt;</title>" in page
        assert drawing in page

    def test_none(self, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is timed when nothing is asked for."""
        monkeypatch.setattr(plan_files, "simulate", pytest.fail)
        write_step(plan, None, None)
