"""A timeline as rows of spans and as a Chrome trace."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.plan import Plan, Replica, Send, Stage, Wire
from argosy.plan.planner import plan_job
from argosy.plan.timing.timeline import Timeline, simulate
from argosy.plan.timing.trace import (
    ROWS_MAX,
    WIRES,
    Row,
    Span,
    chrome_trace,
    excerpt,
    left_out_text,
    shifted,
    shown_replicas,
    stage_label,
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


def pipeline(schedule: str, layers: list[int], virtual: int = 1) -> Plan:
    """Make a plan of one pipeline with stages of so many layers."""
    ends = list(itertools.accumulate(layers))
    stages = tuple(
        Stage(
            first_layer=end - count,
            end_layer=end,
            chip_class="here/c",
            forward_ms=count,
            backward_ms=2 * count,
            backward_shares=(1 / units,) * units,
        )
        for s, (end, count) in enumerate(zip(ends, layers, strict=True))
        for units in [count + (s == 0) + (s == len(layers) - 1)]
    )
    sends = (Send(wire="w", payload_bytes=0),) * (len(layers) - 1)
    return Plan(
        model="m",
        num_layers=ends[-1],
        fleet="f",
        sequence_length=1,
        global_batch_size=4,
        replicas=(Replica(stages=stages, microbatches=4, microbatch_size=1, sends=sends),),
        schedule=schedule,
        virtual_stages=virtual,
        wires=(Wire(name="w", gbps=1, one_way_ms=0),),
    )


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
        assert len(shown) * len(plan.replicas[0].stages) <= ROWS_MAX
        assert timeline_trace(many, timeline)["otherData"]["replicas_left_out"] == 1000 - len(shown)

    def test_one_of_each_kind_stands_for_many(self, drawn: tuple[Plan, Timeline]) -> None:
        """Where not all fit, one replica of each kind stands for the others, and only like ones are left out."""
        plan, _ = drawn
        odd = replace(plan.replicas[0], microbatches=plan.replicas[0].microbatches + 1)
        many = replace(plan, replicas=(*plan.replicas[:1] * 999, odd))
        assert shown_replicas(many) == (0, 999)
        assert left_out_text(many) == "998 like replicas not shown"
        assert left_out_text(plan) == ""

    def test_virtual_stages_share_a_row(self) -> None:
        """A place's row has the work of all its stages, told apart by name and chunk, and names all its layers."""
        plan = pipeline("interleaved", [1, 2, 1, 2], virtual=2)
        rows = timeline_rows(plan, simulate(plan))
        assert [one.label for one in rows] == ["0.0 here/c, layers 0, 3", "0.1 here/c, layers 1-2, 4-5"]
        assert {(span.chunk, span.name.split(" of ")[1]) for span in rows[1].spans} == {(0, "stage 1"), (1, "stage 3")}

    def test_a_stage_alone(self) -> None:
        """A stage's own label names its layers only."""
        assert stage_label(pipeline("interleaved", [1, 2, 1, 2], virtual=2), 0, 1) == "0.1 here/c, layers 1-2"

    def test_weights_gradients_are_work(self) -> None:
        """A zero-bubble schedule's third kind of work is named."""
        plan = pipeline("zero-bubble", [3, 3])
        names = {span.name for one in timeline_rows(plan, simulate(plan)) for span in one.spans}
        assert {"forward 0", "backward 1", "weights 1"} <= names

    def test_excerpt(self) -> None:
        """Of too many spans those that begin first are kept, and it says until when."""
        rows = [row(*range(0, 100, 10)), row(*range(5, 100, 10))]
        assert excerpt(rows, 20) == (tuple(rows), None)
        kept, until_ms = excerpt(rows, 6)
        assert until_ms == 30
        assert [len(one.spans) for one in kept] == [3, 3]

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
