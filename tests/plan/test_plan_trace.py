"""A timeline as a Chrome trace and as an SVG."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.timeline import Timeline, simulate
from argosy.plan.trace import ROWS_MAX, chrome_trace, shown_replicas, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn(build: Any) -> tuple[Plan, Timeline]:
    """Plan the tiny model across two sites and time it."""
    classes = [build.chip_class(f"{site}/<chip>", tflops=0.002) for site in ("north", "south")]
    plan = plan_job(build.job(global_batch_size=16), build.shape(), classes, [build.link()])[0]
    return plan, simulate(plan)


class TestChromeTrace:
    def test_events(self, drawn: tuple[Plan, Timeline]) -> None:
        """Every op is one complete event, every exchange two asynchronous ones, in microseconds, and all is JSON."""
        plan, timeline = drawn
        trace = json.loads(json.dumps(chrome_trace(plan, timeline)))
        counts = {phase: sum(event["ph"] == phase for event in trace["traceEvents"]) for phase in "Xbe"}
        assert counts == {"X": len(timeline.ops), "b": len(timeline.moved), "e": len(timeline.moved)}
        end_us = max(event.get("ts", 0) + event.get("dur", 0) for event in trace["traceEvents"])
        assert end_us == pytest.approx((timeline.step_ms - plan.barrier_ms) * 1000)

    def test_names(self, drawn: tuple[Plan, Timeline]) -> None:
        """Processes are the replicas and the wires."""
        events = chrome_trace(*drawn)["traceEvents"]
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert names == [*(f"replica {r}" for r in range(len(drawn[0].replicas))), "wires"]

    def test_many_replicas(self, drawn: tuple[Plan, Timeline]) -> None:
        """Of very many replicas only the first are drawn, and that is said."""
        plan, timeline = drawn
        many = replace(plan, replicas=plan.replicas[:1] * 1000)
        shown = shown_replicas(many)
        assert shown * len(plan.replicas[0].stages) <= ROWS_MAX
        assert chrome_trace(many, timeline)["otherData"]["replicas_left_out"] == 1000 - shown
        assert f"{1000 - shown} like replicas not shown" in timeline_svg(many, timeline)


class TestSvg:
    def test_well_formed(self, drawn: tuple[Plan, Timeline]) -> None:
        """The picture is XML with one box for each op and exchange, whatever a chip is called."""
        root = ElementTree.fromstring(timeline_svg(*drawn))
        boxes = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
        assert len(boxes) == len(drawn[1].ops) + len(drawn[1].moved)

    def test_emulated_is_said(self, drawn: tuple[Plan, Timeline]) -> None:
        """Emulated times are marked and named as such."""
        text = timeline_svg(*drawn)
        assert "(emulated)" in text
        assert "~" in text
