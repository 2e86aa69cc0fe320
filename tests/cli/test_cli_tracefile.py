"""Rank traces and the Perfetto file made of them."""

import json
from pathlib import Path

import pytest

from argosy.cli.choosing import choose
from argosy.cli.tracefile import RankOp, RankOps, perfetto, read_traces, write_trace
from argosy.contracts.codec import encode
from argosy.contracts.errors import InfrastructureError
from support.runs import Workspace


def op(kind: str, begin_ms: float, step: int = 1, **more: object) -> RankOp:
    """Make an operation of 10 ms, on the wall a little late."""
    times = {"virtual_start_ms": begin_ms, "virtual_end_ms": begin_ms + 10, **more}
    return RankOp(kind=kind, step=step, start_ms=begin_ms + 1, end_ms=begin_ms + 11, **times)


def ranks() -> list[RankOps]:
    """Make two ranks with a forward, a backward, an update, and an exchange told by rank 0."""
    ops = (op("F", 0, microbatch=0), op("B", 10, microbatch=0), op("U", 30))
    moved = (op("X", 20, unit=3), op("X", 22, unit=-1))
    return [RankOps(rank=r, replica=r, stage=0, tp_index=0, ops=ops + (moved if r == 0 else ())) for r in (0, 1)]


def save(folder: Path, traces: list[RankOps]) -> Path:
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

    def test_a_broken_file_is_named(self, tmp_path: Path) -> None:
        """A file that can't be read is an infrastructure error that names the folder."""
        save(tmp_path / "trace", ranks())
        (tmp_path / "trace" / "rank-00001.json").write_text("{")
        with pytest.raises(InfrastructureError, match="trace: a rank's trace can't be read"):
            read_traces(tmp_path / "trace")

    def test_times_are_the_emulated_ones(self) -> None:
        """An emulated operation counts by its virtual times, a real one by the wall."""
        assert op("F", 5).span_ms == (5, 15)
        assert op("F", 5, virtual_start_ms=None).span_ms == (6, 16)


class TestPerfetto:
    def test_nodes_are_processes_and_ranks_threads(self, workspace: Workspace) -> None:
        """Every node and wire is named, and every operation has its times in microseconds."""
        plan = choose(workspace.inputs()).plan
        events = perfetto(ranks(), plan)["traceEvents"]
        named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert named == ["north-1", "south-1", "wires"]
        forward = next(event for event in events if event["name"] == "forward 0")
        assert (forward["ph"], forward["pid"], forward["tid"]) == ("X", 0, 0)
        assert (forward["ts"], forward["dur"]) == (0, 10_000)
        assert forward["args"] == {"step": 1, "emulated": True, "wall_start_ms": 1, "wall_end_ms": 11}

    def test_exchanges_overlap_as_pairs(self, workspace: Workspace) -> None:
        """An exchange is a begin and an end of one number, since several are under way on a wire at once."""
        events = perfetto(ranks(), choose(workspace.inputs()).plan)["traceEvents"]
        pairs: dict[int, str] = {}
        for event in events:
            if event.get("cat") == "exchange":
                pairs[event["id"]] = pairs.get(event["id"], "") + event["ph"]
        assert list(pairs.values()) == ["be", "be"]

    def test_the_file_is_json(self, workspace: Workspace) -> None:
        """The file holds the events and says that they are emulated."""
        folder = save(workspace.folder / "trace", ranks())
        write_trace(workspace.folder / "out.json", folder, choose(workspace.inputs()).plan)
        written = json.loads((workspace.folder / "out.json").read_text())
        assert written["otherData"]["emulated"] is True
        assert written["traceEvents"]
