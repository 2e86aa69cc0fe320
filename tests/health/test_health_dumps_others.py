"""Reading trace rings, stacks and NCCL RAS, and what a set of dumps says together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.layouts import (
    HEADER_BYTES,
    ProgressMark,
    RingHeader,
    TraceRecord,
    pack_mark,
    pack_record,
    pack_ring_header,
    record_offset,
    ring_bytes,
)
from argosy.health.dumps import kind_of, read_dump
from argosy.health.dumps_ras import read_ras
from argosy.health.dumps_rings import read_trace_ring
from argosy.health.dumps_stacks import (
    activity_of,
    looks_like_stacks,
    merge_stacks,
    read_stacks,
    telling_frames,
    tree_lines,
)
from argosy.health.from_dumps import findings_of_dumps, stacks_by_rank, traces_of, trees_by_group
from argosy.health.locate import locate
from argosy.health.words import rank_words

PYSPY = """Process 4711: python train.py --steps 10
Python v3.11.2 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    {inner}
    train (train.py:40)
    <module> (train.py:80)
Thread 4720 (active+gil): "Thread-1"
    run (threading.py:975)
"""
FAULTHANDLER = """Thread 0x00007f4e99a146c0 (most recent call first):
  File "/lib/threading.py", line 982 in run

Current thread 0x00007f4ebbc35b80 (most recent call first):
  File "/lib/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "train.py", line 40 in train
"""
RAS = """Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  {status}

{body}"""
RAS_DEAD = RAS.format(
    status="INCOMPLETE",
    body="""Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 10.0.0.13 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
""",
)
RAS_BEHIND = RAS.format(
    status="MISMATCH",
    body="""Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 5 -- GPU 5 managed by process 483077 on node 10.0.0.10
  Rank 7 -- GPU 7 managed by process 483079 on node 10.0.0.10
""",
)


def ring(rank: int, *records: TraceRecord, capacity: int = 16) -> bytes:
    """Make a ring that holds these records and a mark."""
    data = bytearray(ring_bytes(capacity))
    header = pack_ring_header(RingHeader(rank=rank, generation=1, capacity=capacity, written=len(records)))
    data[: len(header)] = header
    mark = pack_mark(ProgressMark(step=4, phase="exchange", time_us=9))
    data[HEADER_BYTES : HEADER_BYTES + len(mark)] = mark
    for number, record in enumerate(records):
        packed = pack_record(record)
        offset = record_offset(number, capacity)
        data[offset : offset + len(packed)] = packed
    return bytes(data)


def record(sequence: int, state: str, time_us: int = 0, *, group: int = 0, **fields: object) -> TraceRecord:
    """Make one record."""
    usual = {"operation": "all_reduce", "payload_bytes": 64}
    return TraceRecord(group=group, sequence=sequence, state=state, time_us=time_us, **(usual | fields))


class TestRings:
    def test_states_of_one_collective_are_joined(self):
        """Three records of one collective are one entry with three times."""
        data = ring(3, record(1, "enqueued", 10), record(1, "started", 12), record(1, "finished", 20))
        trace = read_trace_ring("r", data)
        (found,) = trace.groups[0].collectives
        assert (found.enqueued_us, found.started_us, found.finished_us) == (10, 12, 20)
        assert (trace.rank, trace.step, trace.phase, trace.groups[0].finished) == (3, 4, "exchange", 1)

    def test_rings_name_who_never_entered(self):
        """Rings of four ranks, of which one is behind, name it; members may be given or seen."""
        done = [record(1, "started"), record(1, "finished")]
        traces = [read_trace_ring("r", ring(n, *done, *([] if n == 1 else [record(2, "started")]))) for n in range(4)]
        assert [each.culprit.name for each in locate(traces)] == ["rank 1"]

    def test_given_members_show_who_left_no_ring(self):
        """With members from the plan, a rank without a ring is noticed."""
        data = ring(0, record(1, "started"))
        others = ring(1, record(1, "started"))
        traces = [read_trace_ring("r", each, members={0: (0, 1, 2)}) for each in (data, others)]
        assert [each.culprit.name for each in locate(traces)] == ["rank 2"]

    def test_messages_are_kept_apart(self):
        """Sends and receives are no collectives, and only open ones are kept."""
        open_ = record(3, "started", operation="receive")
        done = record(2, "finished", operation="send")
        (group,) = read_trace_ring("r", ring(0, done, open_)).groups
        assert [each.operation for each in group.messages] == ["receive"]
        assert group.collectives == ()

    def test_a_cut_ring_is_an_error(self):
        """A ring that was copied in part names its file."""
        with pytest.raises(BadInputError, match=r"^node/ring-0: trace ring: "):
            read_trace_ring("node/ring-0", ring(0)[:200])


class TestStacks:
    def test_py_spy_text(self):
        """Threads, frames and who holds the lock are read."""
        (process,) = read_stacks("s", PYSPY.format(inner="recv_into (socket.py:705)").encode())
        assert (process.pid, process.main.name) == (4711, "MainThread")
        assert process.main.frames == ("recv_into (socket.py:705)", "train (train.py:40)", "<module> (train.py:80)")
        assert "gil" in process.threads[1].state

    def test_py_spy_json(self):
        """The JSON form gives the same."""
        frames = [{"name": "wait", "filename": "threading.py", "line": 320}]
        thread = {"pid": 7, "thread_name": "MainThread", "active": True, "owns_gil": True, "frames": frames}
        data = json.dumps([thread]).encode()
        assert looks_like_stacks(data)
        (process,) = read_stacks("s", data)
        assert process.main.frames == ("wait (threading.py:320)",)

    def test_faulthandler(self):
        """Python's own dump is read; the main thread is the one that no other started, and the last."""
        (process,) = read_stacks("s", FAULTHANDLER.encode())
        assert process.main.frames[0] == "all_reduce (/lib/torch/distributed/distributed_c10d.py:3252)"

    def test_who_dumps_is_not_who_is_shown(self):
        """A watchdog's thread that dumps all stacks is the current one, and tells nothing of the program."""
        dump = FAULTHANDLER.replace("Current thread", "Thread").replace("Thread", "Current thread", 1)
        (process,) = read_stacks("s", dump.encode())
        assert process.main.frames[0].startswith("all_reduce")

    def test_a_thread_that_trains_stands_for_a_program_that_waits_for_it(self):
        """The one in the collective tells more than the one that joins it."""
        waits = FAULTHANDLER.replace(
            '"/lib/torch/distributed/distributed_c10d.py", line 3252 in all_reduce',
            '"/lib/threading.py", line 9 in join',
        )
        trains = FAULTHANDLER[: FAULTHANDLER.index("Current")].replace("in run", "in _bootstrap")
        trains = trains.replace(":\n", ':\n  File "/t/distributed_c10d.py", line 1 in barrier\n', 1)
        (process,) = read_stacks("s", (trains + waits).encode())
        assert process.main.frames[0].startswith("barrier")

    def test_a_log_with_a_crash_in_it_is_no_dump(self):
        """A faulthandler's stack far down in a log does not make the log a dump."""
        assert not looks_like_stacks(("step 1\n" * 10 + FAULTHANDLER).encode())

    @pytest.mark.parametrize(
        ("frames", "activity"),
        [
            (("poll (libc.so.6)", "get (queue.py:1)", "_try_get_data (torch/utils/data/dataloader.py:1)"), "data"),
            (("barrier (torch/distributed/distributed_c10d.py:1)", "save (checkpoint.py:3)"), "collective"),
            (("__init__ (torch/serialization.py:8)", "save (torch/serialization.py:9)"), "checkpoint"),
            (("matmul (model.py:7)",), ""),
        ],
    )
    def test_what_a_thread_is_at(self, frames, activity):
        """The innermost telling frame says what a thread does."""
        assert activity_of(frames) == activity

    @pytest.mark.slow
    def test_many_ranks_make_a_small_tree(self):
        """A hundred thousand ranks with two stacks make a tree of five frames that names both parts."""
        common = ("step (train.py:5)", "main (train.py:9)")
        stacks = [
            (n, (("load (data.py:1)",) if n == 77 else ("all_reduce (c10d.py:2)",)) + common) for n in range(100_000)
        ]
        assert tree_lines(merge_stacks(stacks)) == (
            "main (train.py:9)   ranks 0-99999",
            "step (train.py:5)   ranks 0-99999",
            "  all_reduce (c10d.py:2)   ranks 0-76, 78-99999",
            "  load (data.py:1)   rank 77",
        )

    def test_a_brief_tree_shows_where_ranks_part(self):
        """Frames that all share are drawn once, by the innermost, without folders."""
        common = ("step (/x/train.py:5)", "main (/x/train.py:9)")
        stacks = [(n, (("load (/y/data.py:1)",) if n else ("wait (/z/c10d.py:2)",)) + common) for n in range(3)]
        assert tree_lines(merge_stacks(stacks), brief=True) == (
            "step (train.py:5)   ranks 0-2",
            "  load (data.py:1)   ranks 1-2",
            "  wait (c10d.py:2)   rank 0",
        )

    def test_telling_frames(self):
        """Of a deep stack the innermost, the telling and the user's own frame are shown."""
        frames = (
            "select (/usr/lib/python3.11/selectors.py:415)",
            "wait (/usr/lib/python3.11/connection.py:9)",
            "_try_get_data (/v/site-packages/torch/utils/data/dataloader.py:1)",
            "__next__ (/v/site-packages/torch/utils/data/dataloader.py:7)",
            "train (/home/me/train.py:3)",
            "main (/home/me/train.py:9)",
        )
        assert telling_frames(frames) == (
            "select (selectors.py:415)",
            "_try_get_data (dataloader.py:1)",
            "train (train.py:3)",
        )

    @given(st.text(max_size=300))
    def test_any_text_is_survived(self, text):
        """Whatever the text, reading it ends well."""
        read_stacks("s", text.encode())
        read_stacks("s", (PYSPY.format(inner=text)).encode())


class TestRas:
    def test_a_dead_process_is_named(self):
        """What RAS calls dead is found with node, process and GPU, and the rank that is missing."""
        dump = read_dump("ras.txt", RAS_DEAD.encode(), RAS_DEAD.encode())
        (found,) = findings_of_dumps([dump])
        assert (found.fault_class, found.culprit.name, found.ranks) == ("process.died", "10.0.0.13", (21,))
        assert found.evidence[0].text == "process 3487984 on 10.0.0.13, GPU 5: dead"

    def test_ranks_behind_are_a_hint(self):
        """Ranks whose counts are below most are named, with low confidence: a running job shows that too."""
        dump = read_dump("ras.txt", RAS_BEHIND.encode(), RAS_BEHIND.encode())
        (found,) = findings_of_dumps([dump])
        assert (found.confidence, found.ranks, found.hosts) == ("low", (5, 7), ("10.0.0.10",))

    def test_one_rank_has_its_own_wording(self):
        """A single outlier is printed on one line with its count."""
        body = (
            "Warnings\n========\n\n#0-0 (27a0) MISMATCH\n"
            "  Communicator ranks have different collective operation counts\n"
            "  31 ranks have launched up to operation 10\n"
            "  Rank 3 has launched up to operation 9 -- GPU 3 managed by process 48 on node n1\n"
        )
        (place,) = read_ras("r", RAS.format(status="MISMATCH", body=body).encode()).places
        assert (place.problem, place.rank, place.count, place.node) == ("behind", 3, 9, "n1")

    def test_a_line_without_end_is_no_labour(self):
        """A file that looked like a report held a line of 200,000 letters after a rank, and was read for hours."""
        body = "#0-0 (27a0) MISMATCH\n  Rank 1 " + "a" * 200_000 + "\n  Rank 2 has status RUNNING -- GPU 1\n"
        (place,) = read_ras("r", RAS.format(status="MISMATCH", body=body).encode()).places
        assert (place.problem, place.rank) == ("status:RUNNING", 2)

    def test_a_healthy_report_is_no_finding(self):
        """All is well: nothing is found."""
        text = RAS.format(status="OK", body="").encode()
        assert findings_of_dumps([read_dump("ras", text, text)]) == ()

    def test_json(self):
        """The JSON form tells missing ranks and counts of every rank."""
        rank = {"host": "n1", "pid": 1, "nvml_dev": 0}
        ranks = [rank | {"rank": n, "collective_counts": {"AllReduce": 9 - (n == 2)}} for n in range(4)]
        missing = [rank | {"rank": 4, "host": "n2", "status": {"unresponsive": True, "considered_dead": False}}]
        communicator = {"hash": "0xae", "size": 5, "ranks": ranks, "missing_ranks": missing}
        data = json.dumps({"nccl_version": "2.29.1", "communicators": [communicator], "ras": {}}).encode()
        places = read_dump("ras.json", data, data).ras.places
        assert [(each.problem, each.rank, each.node) for each in places] == [
            ("behind", 2, "n1"),
            ("unresponsive", 4, "n2"),
        ]

    @given(st.text(alphabet="#0-9 ()RankDEPM:\n", max_size=300))
    def test_any_text_is_survived(self, text):
        """Whatever the text, reading it ends well."""
        read_ras("r", (RAS_BEHIND + text).encode())


class TestTogether:
    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (ring(0), "ring"),
            (RAS_DEAD.encode(), "ras"),
            (PYSPY.format(inner="wait (threading.py:1)").encode(), "stacks"),
            (b'{"version": "2.10", "entries": [], "pg_config": {}}', "flight"),
            (b"14:02:11 step 5 loss 2.1\n", None),
            (b"", None),
            (b"\x1f\x8b\x08\x00", None),
        ],
    )
    def test_a_dump_is_known_by_its_content(self, data, kind):
        """Each kind is told by how it begins; logs are none."""
        assert kind_of(data) == kind
        assert (read_dump("rank_0", data, data) is None) == (kind is None)

    def test_stacks_are_put_beside_traces(self):
        """A rank's stack says what it does instead of entering."""
        dumps = []
        for n in range(3):
            records = [record(1, "finished"), *([] if n == 2 else [record(2, "started")])]
            data = ring(n, *records)
            dumps.append(read_dump(f"ring_{n}", data, data))
            text = PYSPY.format(inner="get (data/dataloader.py:1)" if n == 2 else "all_reduce (distributed_c10d.py:1)")
            dumps.append(read_dump(f"stack_rank_{n}.txt", text.encode(), text.encode()))
        (found,) = findings_of_dumps(dumps)
        assert (found.fault_class, found.culprit.name) == ("process.data_stuck", "rank 2")
        trees = trees_by_group(traces_of(dumps, {}), stacks_by_rank(dumps))
        assert tree_lines(trees["0"])[-1] == "  get (data/dataloader.py:1)   rank 2"

    def test_stacks_alone_name_the_odd_one(self):
        """Without traces, the one rank outside of the collective is named, less surely."""
        dumps = []
        for n in range(4):
            inner = "read (data.py:9)" if n == 3 else "all_reduce (torch/distributed/distributed_c10d.py:1)"
            text = PYSPY.format(inner=inner).encode()
            dumps.append(read_dump(f"rank_{n}.pyspy", text, text))
        (found,) = findings_of_dumps(dumps)
        assert (found.culprit.name, found.confidence, found.sufferers) == ("rank 3", "medium", (0, 1, 2))

    def test_damage_is_a_clear_error(self):
        """A dump that breaks off is an error with its name."""
        with pytest.raises(BadInputError, match=r"^rank_1\.pkl: pickle: cut short"):
            read_dump("rank_1.pkl", b"\x80\x02}X\x07\x00\x00\x00entries", b"\x80\x02}X\x07\x00\x00\x00entries")

    @given(st.binary(max_size=300), st.sampled_from([b"", b"ARGORING", b"\x80\x02entries", b'{"entries":', b"["]))
    def test_hostile_bytes_are_refused_or_none(self, data, start):
        """Whatever the bytes, there is a dump, none, or a clear error."""
        try:
            read_dump("rank_0", start + data, start + data)
        except BadInputError:
            return


class TestWords:
    @pytest.mark.parametrize(
        ("ranks", "words"),
        [([5], "rank 5"), ([3, 1, 2, 7], "ranks 1-3, 7"), ([0, 2, 4, 6], "ranks 0, 2 and 2 more")],
    )
    def test_ranks_are_written_in_runs(self, ranks, words):
        """Runs are joined, and past the bound only counted."""
        assert rank_words(ranks, runs_max=2) == words
