"""A timeline as rows of spans and as a Chrome trace."""

import json
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.timeline import Timeline, simulate
from argosy.plan.trace import (
    ROWS_MAX,
    WIRES,
    Row,
    Span,
    chrome_trace,
    shifted,
    shown_replicas,
    timeline_rows,
    timeline_trace,
)


@pytest.fixture(scope="module")
def drawn(build: Any) -> tuple[Plan, Timeline]:
    """Plan the tiny model across two sites and time it."""
    classes = [build.chip_class(f"{site}/<chip>", tflops=0.002) for site in ("north", "south")]
    plan = plan_job(build.job(global_batch_size=16), build.shape(), classes, [build.link()])[0]
    return plan, simulate(plan)


def row(*starts_ms: float, overlaps: bool = False) -> Row:
    """Make a row with spans of 5 ms."""
    spans = tuple(Span(start_ms=at, end_ms=at + 5, kind="F", name="forward", details={"step": 2}) for at in starts_ms)
    return Row(group="g", label="w", spans=spans, overlaps=overlaps)


class TestRows:
    def test_a_row_a_stage_and_a_wire(self, drawn: tuple[Plan, Timeline]) -> None:
        """Every op is a span of its stage's row, every exchange one of its wire's."""
        plan, timeline = drawn
        rows = timeline_rows(plan, timeline)
        spans = {flag: sum(len(one.spans) for one in rows if one.overlaps is flag) for flag in (True, False)}
        assert spans == {True: len(timeline.moved), False: len(timeline.ops)}
        assert [one.group for one in rows if one.overlaps] == [WIRES] * len({item.wire for item in timeline.moved})

    def test_labels(self, drawn: tuple[Plan, Timeline]) -> None:
        """A stage's row names replica, stage, chips and layers."""
        first = timeline_rows(*drawn)[0]
        assert first.group == "replica 0"
        assert first.label.startswith("0.0 ")
        assert "<chip>" in first.label
        assert "layers 0-" in first.label

    def test_many_replicas(self, drawn: tuple[Plan, Timeline]) -> None:
        """Of very many replicas only the first are laid out, and the trace counts the others."""
        plan, timeline = drawn
        many = replace(plan, replicas=plan.replicas[:1] * 1000)
        shown = shown_replicas(many)
        assert shown * len(plan.replicas[0].stages) <= ROWS_MAX
        assert timeline_trace(many, timeline)["otherData"]["replicas_left_out"] == 1000 - shown

    def test_shifted(self) -> None:
        """Rows move as a whole."""
        (moved,) = shifted([row(10, 20)], -10)
        assert [(span.start_ms, span.end_ms) for span in moved.spans] == [(0, 5), (10, 15)]


class TestChromeTrace:
    def test_events(self, drawn: tuple[Plan, Timeline]) -> None:
        """Every op is one complete event, every exchange two asynchronous ones, in microseconds, and all is JSON."""
        plan, timeline = drawn
        trace = json.loads(json.dumps(timeline_trace(plan, timeline)))
        counts = {phase: sum(event["ph"] == phase for event in trace["traceEvents"]) for phase in "Xbe"}
        assert counts == {"X": len(timeline.ops), "b": len(timeline.moved), "e": len(timeline.moved)}
        end_us = max(event.get("ts", 0) + event.get("dur", 0) for event in trace["traceEvents"])
        assert end_us == pytest.approx((timeline.step_ms - plan.barrier_ms) * 1000)

    def test_names(self, drawn: tuple[Plan, Timeline]) -> None:
        """Processes are the replicas and the wires."""
        events = timeline_trace(*drawn)["traceEvents"]
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert names == [*(f"replica {r}" for r in range(len(drawn[0].replicas))), "wires"]

    def test_groups_and_rows_are_numbered_apart(self) -> None:
        """Each group is a process, each of its rows a thread, and details become arguments."""
        rows = [row(0), replace(row(3), group="h"), replace(row(7), label="v")]
        events = [event for event in chrome_trace(rows, {"model": "m"})["traceEvents"] if event["ph"] == "X"]
        assert [(event["pid"], event["tid"], event["ts"]) for event in events] == [
            (0, 0, 0),
            (1, 0, 3000),
            (0, 1, 7000),
        ]
        assert {event["args"]["step"] for event in events} == {2}

    def test_what_overlaps_are_pairs(self) -> None:
        """A begin and an end of one number make each transfer, for several are under way at once."""
        events = chrome_trace([row(0, 3, overlaps=True)], {})["traceEvents"]
        pairs: dict[int, str] = {}
        for event in events:
            if "id" in event:
                pairs[event["id"]] = pairs.get(event["id"], "") + event["ph"]
        assert list(pairs.values()) == ["be", "be"]
