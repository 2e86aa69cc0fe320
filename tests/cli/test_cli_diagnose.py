"""`argosy diagnose`, from files to the screen."""

import gzip
import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from argosy.cli.diagnose_intake import read_zone
from argosy.cli.main import main
from argosy.contracts.errors import BadInputError
from argosy.health.scanner import Scanner

WATCHDOG = (
    "[rank{rank}]:[E1130 14:12:11.{rank:03d} ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=15734, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for "
    "600037 milliseconds before timing out.\n"
)
ECC = "[rank11]: 2026-11-30 14:02:11,911 torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
XID = "[Mon Nov 30 14:02:11 2026] NVRM: Xid (PCI:0000:5d:00): 94, pid=4102, name=python, Contained: SM (0x1).\n"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of the logs of a job that a chip's memory error ended."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    for node in range(4):
        ranks = range(8 * node, 8 * node + 8)
        steps = "".join(f"[2026-11-30 14:0{step // 60}:{step % 60:02d},100] step {step}\n" for step in range(60))
        ends = "".join(ECC if rank == 11 else WATCHDOG.format(rank=rank) for rank in ranks)
        (tmp_path / "logs" / f"node-{16 + node}.log").write_text(steps + ends)
    (tmp_path / "dmesg-node-17.txt").write_text(XID)
    return tmp_path


def asked(capsys: Any, *arguments: str) -> dict[str, Any]:
    """Run it with --json and read the answer."""
    assert main(["diagnose", "--json", *arguments]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.slow
class TestDiagnose:
    def test_it_names_the_chip_and_not_the_thirty_one_others(self, logs: Path, capsys: Any) -> None:
        """One incident, its cause first and its culprit the chip; who only waited is said to be not at fault."""
        assert main(["diagnose", "logs", "dmesg-node-17.txt"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("gpu.ecc")
        assert "node-17" in lines[0]
        assert "Xid" in lines[1]
        assert any(line.startswith("not at fault") for line in lines)
        assert any(line.startswith("what to do") for line in lines)

    def test_the_page_shows_what_comes_out(self, logs: Path, capsys: Any) -> None:
        """The example in docs/diagnose.md is what is printed, ends of lines apart."""
        assert main(["diagnose", "logs", "dmesg-node-17.txt"]) == 0
        printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
        page = (Path(__file__).parents[2] / "docs" / "diagnose.md").read_text(encoding="utf-8")
        assert f"$ argosy diagnose logs/ dmesg-node-17.txt\n{printed}\n```" in page

    def test_json_has_all_of_it(self, logs: Path, capsys: Any) -> None:
        """The object holds incidents, clocks, what was read, and notes."""
        (logs / "logs" / "train.py").write_text("raise RuntimeError('CUDA out of memory')")
        answer = asked(capsys, "logs", "dmesg-node-17.txt")
        (incident,) = answer["incidents"]
        assert incident["fault_class"].startswith("gpu.ecc")
        assert [item["at_us"] for item in incident["evidence"]] == sorted(
            item["at_us"] for item in incident["evidence"]
        )
        assert answer["read"]["logs"] == 5
        assert answer["read"]["lines"] == 4 * 68 + 1
        assert [offset["corrected"] for offset in answer["clocks"]] == [False] * 3
        assert answer["notes"] == ["1 file of other kinds left out; name one to have it read"]

    def test_packed_and_piped_logs_say_the_same(self, logs: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Logs in gzip, and on standard input, lead to the same class."""
        text = ECC.encode()
        (logs / "x").write_bytes(gzip.compress(text))
        (logs / "plain").write_bytes(text)
        with (logs / "plain").open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            classes = [asked(capsys, name)["incidents"][0]["fault_class"] for name in ("x", "-")]
        assert classes == ["gpu.ecc_uncorrectable"] * 2

    def test_healthy_logs_are_healthy(self, logs: Path, capsys: Any) -> None:
        """Where nothing broke it says so, and how much it read."""
        (logs / "fine.log").write_text("step 1 loss 2.3\n" * 10)
        assert main(["diagnose", "fine.log", "--exit-code"]) == 0
        assert capsys.readouterr().out == "nothing that broke was found in 1 log (10 lines)\n"

    def test_scripts_may_ask_by_exit_code(self, logs: Path, capsys: Any) -> None:
        """With --exit-code, 10 says that something broke."""
        assert main(["diagnose", "--exit-code", "dmesg-node-17.txt"]) == 10

    def test_zones_order_what_happened(self, logs: Path, capsys: Any) -> None:
        """Times without a zone are of the one given."""
        (logs / "x.log").write_text(
            "2026-11-30 22:02:11 RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        )
        answer = asked(capsys, "x.log", "--timezone", "+08:00")
        assert answer["incidents"][0]["evidence"][0]["at_us"] == 1_796_047_331_000_000

    def test_own_patterns_are_known(self, logs: Path, capsys: Any) -> None:
        """A file of signatures adds to what is known."""
        (logs / "mine.yaml").write_text(
            "classes:\n"
            "  storage.our_cache: {meaning: our cache is full, culprit: host, remedy: retry, advice: Clear it.}\n"
            "signatures:\n  - name: our.cache\n    layer: storage\n    fault_class: storage.our_cache\n"
            "    literals: [blobcache]\n    pattern: 'blobcache (?P<host>\\S+): full'\n    strength: 3\n"
            "    example: 'blobcache c7: full'\n"
        )
        (logs / "x.log").write_text("blobcache node-7: full\n")
        (incident,) = asked(capsys, "x.log", "--patterns", "mine.yaml")["incidents"]
        assert (incident["fault_class"], incident["culprit"]["kind"]) == ("storage.our_cache", "host")

    def test_a_flight_record_names_the_rank_that_never_came(self, logs: Path, capsys: Any) -> None:
        """Dumps are told from logs by what is in them."""
        for rank in range(4):
            entries = [
                {
                    "collective_seq_id": sequence,
                    "p2p_seq_id": 0,
                    "pg_id": 0,
                    "profiling_name": "gloo:all_reduce",
                    "process_group": ("0", "default_pg"),
                    "input_sizes": [[8]],
                    "output_sizes": [[8]],
                    "input_dtypes": ["Float"],
                    "output_dtypes": ["Float"],
                    "state": "scheduled",
                    "is_p2p": False,
                    "op_id": sequence,
                    "retired": sequence < 6,
                    "frames": [],
                }
                for sequence in range(1, 6 if rank == 2 else 7)
            ]
            status = {"0": {"last_enqueued_collective": len(entries), "last_completed_collective": 5}}
            record = {
                "version": "2.10",
                "rank": rank,
                "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
                "pg_status": status,
                "entries": entries,
            }
            (logs / "logs" / f"fr_rank_{rank}").write_bytes(pickle.dumps(record))
        for path in (logs / "logs").glob("*.log"):
            path.unlink()
        answer = asked(capsys, "logs")
        assert answer["read"]["dumps"] == 4
        assert answer["incidents"][0]["culprit"] == {"kind": "rank", "name": "rank 2"}

    def test_stacks_in_ranks_logs_name_the_one_that_does_something_else(self, logs: Path, capsys: Any) -> None:
        """Where a program's own watchdog wrote stacks into each rank's log, the odd one is named."""
        (logs / "hang").mkdir()
        for rank in range(4):
            frames = ["load_batch (data.py)", "fetch (data.py)"] if rank == 2 else ["all_reduce (distributed_c10d.py)"]
            stack = "".join(
                f'  File "/x/{frame.split("(")[1][:-1]}", line 7 in {frame.split(" ")[0]}\n'
                for frame in [*frames, "main (train.py)"]
            )
            text = "step\n" * 9 + f"Timeout (0:00:10)!\nThread 0x00007f1c6d6dc740 (most recent call first):\n{stack}"
            (logs / "hang" / f"rank_{rank}.log").write_text(text)
        answer = asked(capsys, "hang")
        assert (answer["read"]["logs"], answer["read"]["dumps"]) == (4, 4)
        assert answer["incidents"][0]["culprit"]["name"] == "rank 2"


@pytest.mark.slow
class TestHostileInput:
    def test_nothing_to_read_is_an_error(self, logs: Path, capsys: Any) -> None:
        """Absent, empty and binary files are refused, each with a reason."""
        (logs / "empty").write_text("")
        (logs / "zeros").write_bytes(b"\0" * 1_000)
        assert [main(["diagnose", name]) for name in ("absent", "empty", "zeros")] == [2, 2, 2]
        told = capsys.readouterr().err.splitlines()
        assert [line.split(":")[0] for line in told] == ["absent", "empty", "zeros"]
        assert told[2].count("zeros") == 1

    def test_a_pickle_that_calls_is_not_run(self, logs: Path, capsys: Any) -> None:
        """A dump that would run a program when loaded does not, and the logs beside it are judged."""

        class Evil:
            def __reduce__(self) -> tuple[Any, ...]:
                return open, (str(logs / "pwned"), "w")

        (logs / "fr_rank_0").write_bytes(pickle.dumps({"version": "2.10", "entries": Evil()}))
        answer = asked(capsys, "fr_rank_0", "dmesg-node-17.txt")
        assert not (logs / "pwned").exists()
        assert len(answer["incidents"]) == 1
        assert any("fr_rank_0" in note for note in answer["notes"])

    def test_a_line_of_many_megabytes_is_read(self, logs: Path, capsys: Any) -> None:
        """A log that never ends its line is searched, and what it says at its end is found."""
        with (logs / "x.log").open("wb") as file:
            for _ in range(20):
                file.write(b"x" * 1_000_000)
            file.write(b" CUDA error: uncorrectable ECC error encountered")
        assert len(asked(capsys, "x.log")["incidents"]) == 1

    @pytest.mark.parametrize(
        "text", [b"\xff\xfe", b"\x80\x05", b"{", b"[", b"ARGORING", b"\x1b[", b"\r\r\r", b"Thread 0x"]
    )
    def test_the_begin_of_anything_is_taken(self, logs: Path, capsys: Any, text: bytes) -> None:
        """What begins like something known and isn't never is a bug."""
        for rest in (b"", b"\n", b"\0", b"nonsense " * 50):
            (logs / "x").write_bytes(text + rest)
            assert main(["diagnose", "x"]) in (0, 2)

    def test_bad_patterns_are_told_with_their_place(self, logs: Path, capsys: Any) -> None:
        """A file of patterns that is wrong is refused with file and line; one that isn't there by name."""
        (logs / "bad.yaml").write_text("signatures:\n  - name: x\n    pattern: '('\n    literals: [x]\n")
        assert main(["diagnose", "dmesg-node-17.txt", "--patterns", "bad.yaml"]) == 2
        assert "bad.yaml:" in capsys.readouterr().err
        assert main(["diagnose", "dmesg-node-17.txt", "--patterns", "absent.yaml"]) == 2

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("pattern", "told"),
        [("(a+)+$", "takes more than 1 s on one line of its example"), ("a{99999999999}", "not a regular expression")],
    )
    def test_patterns_that_are_too_much_are_told(self, logs: Path, capsys: Any, pattern: str, told: str) -> None:
        """A pattern that searched its own example for hours said nothing; one with a huge count was a bug."""
        row = f"{{name: x, pattern: '{pattern}', literals: [aaaa], fault_class: user.exception, example: {'a' * 60}b}}"
        (logs / "bad.yaml").write_text(f"signatures:\n  - {row}\n")
        assert main(["diagnose", "dmesg-node-17.txt", "--patterns", "bad.yaml"]) == 2
        assert told in capsys.readouterr().err

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_nothing_in_a_log_moves_the_terminal(self, logs: Path, capsys: Any, options: list[str]) -> None:
        """Escapes, control characters in two bytes and marks that turn text around are shown, in names as well."""
        (logs / "y").mkdir()
        (logs / "y/x\x1b]0;name\x07\u202e.log").write_text(
            "2026-11-30 14:02:11 RuntimeError: \x1b]0;title"
            + "A" * 300
            + "\x07 \u009b31m \u202e \x7f CUDA out of memory\n"
        )
        assert main(["diagnose", "y", *options]) == 0
        told = capsys.readouterr()
        assert "gpu.oom" in told.out
        assert not re.search("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u202e]", told.out + told.err)

    def test_an_interrupt_is_told(self, logs: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C in the middle of a log left with 130 and no word, as Typer does by itself."""

        def interrupted(_self: Scanner, _index: int, _text: str) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Scanner, "match", interrupted)
        assert main(["diagnose", "dmesg-node-17.txt"]) == 130
        assert capsys.readouterr().err == "interrupted\n"

    @pytest.mark.parametrize("digits", [30, 5_000])
    def test_numbers_that_nothing_counts_to_are_no_numbers(self, logs: Path, capsys: Any, digits: int) -> None:
        """A process, an exit code or a time of five thousand digits ended the diagnosis with a bug."""
        number = "9" * digits
        for line in (
            f"RuntimeError: DataLoader worker (pid(s) {number}) exited unexpectedly",
            f"failed (exitcode: {number}) local_rank: 1 (pid: {number}) of binary: python",
            f"Out of memory: Killed process {number} (python3)",
            f"step {number} loss 1.0",
        ):
            (logs / "rank_1.log").write_text(f"2026-11-30 14:02:11 [rank1]: {line}\n")
            assert main(["diagnose", "rank_1.log", "--json"]) == 0


class TestZone:
    @pytest.mark.parametrize(
        ("text", "minutes"),
        [("UTC", 0), ("Z", 0), ("+08:00", 480), ("-0530", -330), ("+8", 480), ("utc+2", 120), ("", 0)],
    )
    def test_zones_are_read(self, text: str, minutes: int) -> None:
        """Hours, with or without minutes, east of UTC."""
        assert read_zone(text) == minutes

    @pytest.mark.parametrize("text", ["Beijing", "+25", "8", "+08:00:00"])
    def test_other_zones_are_refused(self, text: str) -> None:
        """Names and nonsense are answered with how to write it."""
        with pytest.raises(BadInputError, match=r"such as \+08:00"):
            read_zone(text)
