"""Which rank ran where."""

from argosy.health.roster import Roster
from support.sightings import taken

INIT = "node-a:{pid}:77 [{gpu}] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} nranks {of} cudaDev {gpu} busId 5d000\n"
XID = "NVRM: Xid (PCI:0000:5d:00): 94, x"


class TestRoster:
    def test_a_process_is_known_by_its_largest_communicator(self) -> None:
        """A process has ranks in many groups; its rank in the job is that in the largest."""
        roster = Roster()
        text = INIT.format(pid=21, gpu=3, rank=1, of=2) + INIT.format(pid=21, gpu=3, rank=11, of=32)
        roster.learn((text + INIT.format(pid=21, gpu=3, rank=0, of=4)).encode())
        assert roster.ranks == {("node-a", 21): (32, 11)}

    def test_lines_of_that_process_are_of_that_rank(self) -> None:
        """NCCL's lines name host and process; what they lack is lent, also from another log."""
        result = taken(
            ("x.log", "node-a:21:99 [3] CUDA out of memory\nnode-a:22:99 [4] CUDA out of memory\n"),
            ("y.log", INIT.format(pid=21, gpu=3, rank=11, of=32)),
        )
        assert [one.line.rank for one in result.sightings] == [11, None]

    def test_ranks_lend_their_host(self) -> None:
        """A rank whose host is told somewhere is on that host everywhere."""
        result = taken(
            ("node-a/rank_3.log", "CUDA out of memory\n"),
            ("all.log", "[rank3]: CUDA out of memory\n[rank4]: CUDA out of memory\n"),
        )
        assert [one.line.host for one in result.sightings] == ["node-a", "node-a", ""]

    def test_a_rank_that_moved_lends_nothing(self) -> None:
        """After a restart a rank is elsewhere, so its name alone tells no host."""
        logs = [(f"node-{name}/rank_3.log", "CUDA out of memory\n") for name in "ab"]
        result = taken(*logs, ("all.log", "[rank3]: CUDA out of memory\n"))
        assert result.sightings[-1].line.host == ""

    def test_a_line_without_end_is_no_labour(self) -> None:
        """A megabyte of one line, as of base64, beside the word `ranks` was searched for a host for hours."""
        roster = Roster()
        roster.learn(b"a" * 1_000_000 + b" of 3 ranks \n" + INIT.format(pid=21, gpu=3, rank=1, of=2).encode())
        assert roster.ranks == {("node-a", 21): (2, 1)}

    def test_odd_lines_teach_nothing(self) -> None:
        """Numbers beyond all bounds and cut lines don't fail."""
        roster = Roster()
        roster.learn(b"a:1:1 [0] NCCL INFO rank 9" + b"9" * 5_000 + b" nranks 5\n nranks \xff rank")
        assert len(roster.ranks) <= 1
