"""Rank traces, as rows and as the Perfetto file made of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.tracefile import middle_step, perfetto, read_traces, step_rows, step_window, write_trace
from argosy.contracts.codec import encode
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.rank_trace import RankOp, RankTrace
from argosy.plan.timing.timeline import simulate
from argosy.plan.timing.trace import timeline_rows
from support.runs import Workspace, timed_ranks

# A batch that two whole replicas divide by their speeds, so that no pipeline is faster.
TWO_REPLICAS = "train.global_batch_size=9"


def op(kind: str, begin_ms: float, step: int = 1, **more: object) -> RankOp:
    """Make an operation of 10 ms, on the host a little late."""
    times = {"virtual_start_ms": begin_ms, "virtual_end_ms": begin_ms + 10, **more}
    return RankOp(kind=kind, step=step, start_ms=begin_ms + 1, end_ms=begin_ms + 11, **times)


def ranks(clock: str = "emulated") -> list[RankTrace]:
    """Make two ranks with a forward, a backward, an update, and an exchange told by rank 0."""
    ops = (op("F", 0, microbatch=0), op("B", 10, microbatch=0), op("U", 30))
    moved = (op("X", 20, unit=3), op("X", 22, unit=-1))
    return [
        RankTrace(rank=r, replica=r, stage=0, tp_index=0, clock=clock, ops=ops + (moved if r == 0 else ()))
        for r in (0, 1)
    ]


def save(folder: Path, traces: list[RankTrace]) -> Path:
    """Write traces as ranks do."""
    folder.mkdir(parents=True)
    for trace in traces:
        (folder / f"rank-{trace.rank:05d}.json").write_bytes(encode(trace))
    return folder


class TestRead:
    def test_reads_what_ranks_wrote(self, tmp_path: Path) -> None:
        """Files are read in the order of ranks."""
        assert read_traces(save(tmp_path / "trace", ranks())) == ranks()

    def test_nothing_traced(self, tmp_path: Path) -> None:
        """Without files there are no traces."""
        assert read_traces(tmp_path) == []

    @pytest.mark.parametrize("text", ["{", encode(replace(ranks()[1], version=2)).decode()])
    def test_a_file_that_is_none_is_named(self, text: str, tmp_path: Path) -> None:
        """A file that is broken or of another version is an infrastructure error that names the folder."""
        save(tmp_path / "trace", ranks())
        (tmp_path / "trace" / "rank-00001.json").write_text(text)
        with pytest.raises(InfrastructureError, match="trace: a rank's trace can't be read"):
            read_traces(tmp_path / "trace")

    def test_times_are_the_emulated_ones(self) -> None:
        """An emulated operation counts by its virtual times, a real one by the host's."""
        assert op("F", 5).span_ms == (5, 15)
        assert op("F", 5, virtual_start_ms=None).span_ms == (6, 16)


class TestPerfetto:
    def test_nodes_are_processes_and_ranks_threads(self, workspace: Workspace) -> None:
        """Every node and wire is named, and every operation has its times in microseconds."""
        events = perfetto(ranks(), choose(workspace.inputs(TWO_REPLICAS)).plan)["traceEvents"]
        named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert named == ["north-1 (emulated clock)", "south-1 (emulated clock)", "wires"]
        forward = next(event for event in events if event["name"] == "forward 0")
        assert (forward["ph"], forward["pid"], forward["tid"]) == ("X", 0, 0)
        assert (forward["ts"], forward["dur"]) == (0, 10_000)
        assert forward["args"] == {"step": 1, "emulated": True, "wall_start_ms": 1, "wall_end_ms": 11}

    def test_the_hosts_clock_is_named(self, workspace: Workspace) -> None:
        """On real chips the names say that an accelerator's work was launched then, which is not when it ran."""
        text = json.dumps(perfetto(ranks("host"), choose(workspace.inputs(TWO_REPLICAS)).plan))
        assert "north-1 (host clock: on an accelerator, when work was launched)" in text

    def test_the_file_is_json(self, workspace: Workspace) -> None:
        """The file holds the events and says that they are emulated."""
        folder = save(workspace.folder / "trace", ranks())
        write_trace(workspace.folder / "out.json", folder, choose(workspace.inputs(TWO_REPLICAS)).plan)
        written = json.loads((workspace.folder / "out.json").read_text())
        assert written["otherData"]["emulated"] is True
        assert written["traceEvents"]


class TestStep:
    def test_measured_rows_match_the_predicted(self, workspace: Workspace) -> None:
        """Ranks that do as the timeline says are drawn as it is."""
        plan = choose(workspace.inputs()).plan
        timeline = simulate(plan)
        rows, length_ms = step_rows(plan, timed_ranks(plan), 3)
        assert length_ms == pytest.approx(timeline.step_ms)
        for ours, theirs in zip(rows, timeline_rows(plan, timeline), strict=False):
            assert ours.label.endswith(theirs.label)
            assert [s.start_ms for s in ours.spans] == pytest.approx([s.start_ms for s in theirs.spans], abs=1e-6)

    def test_one_rank_stands_for_its_group(self, workspace: Workspace) -> None:
        """Of ranks that share a stage by tensor parallelism the first is drawn."""
        plan = choose(workspace.inputs()).plan
        traces = timed_ranks(plan)
        rows, _ = step_rows(plan, [traces[0], replace(traces[1], tp_index=1)], 2)
        assert [row.label for row in rows if row.label.startswith("rank")] == [rows[0].label]

    def test_a_step_lies_between_barriers(self, workspace: Workspace) -> None:
        """A step begins where the update before it begins."""
        plan = choose(workspace.inputs()).plan
        step_ms = simulate(plan).step_ms
        assert step_window(timed_ranks(plan), 2) == pytest.approx((step_ms, 2 * step_ms))

    def test_the_middle_step_is_shown(self, workspace: Workspace) -> None:
        """Of many steps the middle one is shown, of one none, for its beginning is unknown."""
        plan = choose(workspace.inputs()).plan
        assert middle_step(timed_ranks(plan, steps=9)) == 4
        assert middle_step(timed_ranks(plan, steps=1)) is None
        assert middle_step([]) is None
