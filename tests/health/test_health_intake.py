"""From bytes of logs to sightings."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.health import keeper as keeper_module
from argosy.health.intake import LINE_BYTES_MAX, Intake
from argosy.health.keeper import ALIKE_MAX, Keeper
from argosy.health.scanner import Scanner
from support.sightings import SIGNATURES, seen, taken

SCANNER = Scanner(SIGNATURES)
XID = "NVRM: Xid (PCI:0000:5d:00): 94, pid=1"
OOM = "torch.OutOfMemoryError: CUDA out of memory."


def found(blocks: list[bytes]) -> list[tuple[int, str, int | None]]:
    """Take a log in by blocks: line numbers, texts and times of what was seen."""
    keeper = Keeper()
    intake = Intake(SCANNER, keeper, "log.txt")
    for block in blocks:
        intake.feed(block)
    intake.close()
    return [(one.line.number, one.line.text, one.at_us) for one in keeper.settled().sightings]


class TestIntake:
    def test_a_sighting_says_who_what_and_when(self) -> None:
        """Source, line number, text without its dress, rank, fields and time are told."""
        sighting = seen(f"start\n[rank2]:2026-11-30T14:02:11.208Z {OOM}\n", "runs/node-a/out.log")
        line = sighting.line
        assert (line.source, line.number, line.text) == ("runs/node-a/out.log", 2, OOM)
        assert (line.rank, line.host, sighting.at_us, line.at_us) == (2, "node-a", *[1_796_047_331_208_000] * 2)
        assert seen(f"{XID}\n").fields == {"chip": "0000:5d:00", "code": "94"}

    def test_colours_and_progress_bars_are_taken_off(self) -> None:
        """Escapes inside the words, carriage returns and CRLF don't hide a line, nor stay in it."""
        text = f"10%|#  |\r20%|## |\r\x1b[31mCUDA out\x1b[0m of memory\x1b]0;title\x07.\r\n{XID}\r\n"
        assert [one.line.text for one in taken(("x", text)).sightings] == ["CUDA out of memory.", XID]
        assert [one.line.number for one in taken(("x", text)).sightings] == [1, 2]

    def test_ranks_that_write_into_one_line_are_told_apart(self) -> None:
        """Where two ranks' lines ran together, each says its own."""
        sightings = taken(("x", f"[rank0]: {OOM}[rank1]: {OOM}\n")).sightings
        assert [(one.line.rank, one.line.text) for one in sightings] == [(0, OOM), (1, OOM)]

    def test_a_prefix_before_the_ranks_is_its_own(self) -> None:
        """What a collector put before a launcher's prefix is no other rank's line."""
        line = seen(f"[pod/trainer-0/pytorch] 2026-11-30T14:02:11.0Z [rank0]: {OOM}").line
        assert (line.rank, line.host, line.at_us) == (0, "trainer-0", 1_796_047_331_000_000)

    def test_a_described_pod_is_the_host_of_its_description(self) -> None:
        """`kubectl describe pod` tells in its first line what the others are about."""
        assert seen(f"Name:         trainer-2\nNamespace:    ml\n  Message: {OOM}\n").line.host == "trainer-2"

    def test_lines_without_a_time_take_it_from_above(self) -> None:
        """A traceback's last line happened when the line above it that has a time did."""
        text = f"2026-11-30 14:02:10 step 1\n2026-11-30 14:02:11 failed\nTraceback:\n  File x\n{OOM}\n"
        assert seen(text).at_us == 1_796_047_331_000_000

    def test_no_time_anywhere_is_none(self) -> None:
        """A line of a log without times has none."""
        assert seen(OOM).at_us is None

    def test_torchruns_report_is_read_as_one(self) -> None:
        """Rank, host and time of a failure's report stand on lines of their own."""
        signatures = taken(
            (
                "x",
                "[0]:\n  time      : 2026-11-30_14:02:11\n  host      : node-17\n  rank      : 9 (local_rank: 1)\n"
                "  exitcode  : 1 (pid: 5)\n  traceback : CUDA out of memory\n",
            )
        ).sightings
        line = signatures[0].line
        assert (line.rank, line.local_rank, line.host, line.at_us) == (9, 1, "node-17", 1_796_047_331_000_000)

    def test_repeats_are_counted_not_kept(self) -> None:
        """Of sightings alike the first few are kept; those that name something else are kept too."""
        text = f"{XID}\n" * 1_000 + XID.replace("94", "95") + "\n"
        sightings = taken(("x", text)).sightings
        assert len(sightings) == ALIKE_MAX + 1
        assert sum(one.repeats for one in sightings) == 1_000 - ALIKE_MAX
        assert sightings[-1].fields["code"] == "95"

    def test_floods_are_sampled(self) -> None:
        """Of a flood of lines alike only some are looked at, and all are counted, each rank's by itself."""
        flood = "".join(f"[rank{n % 3}]: CUDA out of memory at step {n}\n" for n in range(10_000))
        sightings = taken(("x", flood + "[rank3]: CUDA out of memory at step 1\n")).sightings
        assert len(sightings) == 3 * ALIKE_MAX + 1
        assert sum(1 + one.repeats for one in sightings) == 10_001

    def test_there_is_a_bound_on_what_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sightings that all differ are kept up to a bound, and those dropped are counted."""
        monkeypatch.setattr(keeper_module, "DIFFERENT_MAX", 10)
        result = taken(("x", "\n".join(XID.replace("94", str(code)) for code in range(100))))
        assert (len(result.sightings), result.dropped) == (10, 90)


class TestBlocks:
    TEXT = f"2026-11-30 14:02:11 a\r\n{XID}\nb\x1b[1m\n\n[rank1]: {OOM}\n10%\r20%\rCUDA out of memory".encode()

    @given(st.lists(st.integers(0, len(TEXT)), max_size=8))
    def test_blocks_may_end_anywhere(self, cuts: list[int]) -> None:
        """However a log is cut into blocks, the same is seen at the same lines and times."""
        places = [0, *sorted(cuts), len(self.TEXT)]
        blocks = [self.TEXT[begin:end] for begin, end in pairwise(places)]
        assert found(blocks) == found([self.TEXT])
        assert [number for number, _, _ in found(blocks)] == [2, 5, 6]

    def test_a_line_without_end_is_taken_in_pieces(self) -> None:
        """What stands in a line of any length is seen once, and what is held stays small."""
        keeper = Keeper()
        intake = Intake(SCANNER, keeper, "x")
        for block in (
            [b"x" * 100_000] * 20 + [b"Xid (PCI:0000:5d", b":00): 79", b"y" * 200_000] * 2 + [b"\nXid (PCI:1): 7\n"]
        ):
            intake.feed(block)
            assert len(intake._rest) <= LINE_BYTES_MAX
        intake.close()
        assert [one.fields["code"] for one in keeper.settled().sightings] == ["79", "79", "7"]
        assert [one.line.number for one in keeper.settled().sightings] == [1, 1, 2]
        assert intake.lines == 2

    def test_holes_are_read_over(self) -> None:
        """A crash, or a log emptied while it was written, leaves zeros in front of a line and within it."""
        assert found([b"\0" * 200_000 + XID.encode() + b"\n" + b"\0" * 99]) == found([XID.encode() + b"\n"])
        assert [number for number, _, _ in found([b"a\n\0\0", b"\0CUDA out of\0 memory\n"])] == [2]

    def test_long_rules_are_no_headings(self) -> None:
        """Lines of dashes and signs are passed in one go each, however long and whatever stands behind."""
        intake = Intake(SCANNER, Keeper(), "x")
        intake.feed((b"-" * 4_000 + b" x\n" + b"a" * 10 + b"=" * 4_000 + b"\n") * 200)
        assert intake._headings == []

    @given(st.lists(st.binary(max_size=60), max_size=6))
    def test_any_bytes_are_taken_in(self, blocks: list[bytes]) -> None:
        """Bytes that are no text, in any cut, never fail."""
        found([*blocks, b"Xid (PCI:\xff): 3\x1b", *blocks])

    @pytest.mark.parametrize(
        "line",
        [
            "host:1:1 [{n}] CUDA out of memory",
            "{n}: CUDA out of memory",
            "[rank{n}]: CUDA out of memory",
            "[Rank {n}] Watchdog caught x: WorkNCCL(SeqNum={n}, OpType=A, NumelIn={n}, x) ran for {n} milliseconds",
            "[{n}.123] CUDA out of memory",
            "{n}.123 CUDA out of memory",
            "2026-11-30 14:02:11.{n} CUDA out of memory",
            '{{"__REALTIME_TIMESTAMP":"{n}","time":{n},"MESSAGE":"CUDA out of memory"}}',
            '{{"ts": 1e999, "rank": {n}, "msg": "CUDA out of memory"}}',
            "  rank : {n} (local_rank: {n})\n  exitcode : CUDA out of memory",
            "2026-11-30 14:02:11 step {n}\nCUDA out of memory",
            "host:{n}:1 [0] NCCL INFO rank {n} nranks {n}\nCUDA out of memory",
        ],
    )
    @pytest.mark.parametrize("digits", [19, 20, 5_000])
    def test_numbers_may_be_of_any_length(self, line: str, digits: int) -> None:
        """No number in a log is too long to be read past."""
        assert len(taken(("x", line.format(n="9" * digits)), near_us=0).sightings) <= 2
