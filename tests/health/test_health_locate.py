"""Naming a culprit from traces: who never entered, who waits for whom, who did something else, and unknown."""

import numpy as np
import pytest

from argosy.health.finding import Finding
from argosy.health.groups import lay_out
from argosy.health.locate import locate
from argosy.health.traces import (
    Collective,
    GroupTrace,
    LinkProbe,
    Liveness,
    RankState,
    RankTraceOfGroups,
    group_trace,
)
from argosy.health.waits import follow

WORLD = (0, 1, 2, 3)
PATIENCE_US = 10_000_000


def collective(sequence: int, *, running: bool = False, **fields: object) -> Collective:
    """Make an all-reduce that is done, or running."""
    state = "started" if running else "finished"
    return Collective(**{"sequence": sequence, "operation": "all_reduce", "state": state, "size": 64, **fields})


def group(
    entered: int, name: str = "0", members: tuple[int, ...] = WORLD, *, inside: bool = True, **fields: object
) -> GroupTrace:
    """Make a group in which a rank entered so many collectives; inside: it is still in the last."""
    done = [collective(n) for n in range(1, entered + (not inside))]
    last = [collective(entered, running=True, **fields)] if inside else []
    return group_trace(name, done + last, description=name, members=members)


def rank(number: int, *groups: GroupTrace, **fields: object) -> RankTraceOfGroups:
    """Make one rank's trace."""
    return RankTraceOfGroups(rank=number, groups=groups, **fields)


def hung(late: int = 2, entered: int = 7) -> list[RankTraceOfGroups]:
    """Make four ranks of which all but one are in a collective."""
    return [rank(n, group(entered - 1, inside=False) if n == late else group(entered)) for n in WORLD]


def named(found: tuple[Finding, ...]) -> list[tuple[str, str]]:
    """Give what was found as (class, culprit)."""
    return [(each.fault_class, each.culprit.name) for each in found]


def alive(ranks: tuple[int, ...] = WORLD, **others: RankState) -> dict[int, RankState]:
    """Say that all ranks run, but for those named `rank2=...`."""
    return {n: others.get(f"rank{n}", RankState(state="running")) for n in ranks}


class TestOneGroup:
    def test_who_never_entered_is_named(self):
        """The one rank that is not in the collective holds up the three that are."""
        (found,) = locate(hung())
        assert (found.fault_class, found.culprit.name, found.confidence) == ("process.hang", "rank 2", "high")
        assert found.sufferers == (0, 1, 3)

    def test_the_evidence_says_where_and_what(self):
        """The finding tells the group, the collective, its number, and what the culprit did last."""
        text = locate(hung())[0].evidence[0].text
        assert (
            text == "3 ranks wait in 0 for rank 2 at all-reduce of 64 bytes, number 7, "
            "which it never entered; its last was number 6"
        )

    def test_nothing_open_is_nothing_wrong(self):
        """Ranks that have all finished all they entered give no finding."""
        assert locate([rank(n, group(7, inside=False)) for n in WORLD]) == ()

    def test_no_traces_no_finding(self):
        """Nothing gives nothing."""
        assert locate([]) == ()

    def test_a_wait_shorter_than_patience_is_work(self):
        """A job caught in the middle of a step is no hang, where the trace says when it was read."""
        traces = [rank(n, group(6, inside=False) if n == 2 else group(7, started_us=100), at_us=200) for n in WORLD]
        assert locate(traces, patience_us=PATIENCE_US) == ()
        assert named(locate(traces, patience_us=50)) == [("process.hang", "rank 2")]

    def test_a_member_without_a_trace_is_noticed(self):
        """A rank that wrote no trace is missed by the members' list, and named less surely."""
        (found,) = locate([trace for trace in hung() if trace.rank != 2])
        assert (found.culprit.name, found.confidence) == ("rank 2", "medium")

    def test_most_traces_missing_is_not_most_ranks_dead(self):
        """With one trace of four, the user is asked for the others."""
        (found,) = locate([rank(0, group(7))])
        assert found.culprit.kind == "unknown"
        assert "collect the traces of ranks 1-3" in found.advice

    def test_a_rank_that_may_receive_is_named_less_surely(self):
        """A trace without messages can't tell a rank that hangs from one that receives; its stack can."""
        traces = [rank(t.rank, *t.groups, notes_messages=False) for t in hung()]
        assert locate(traces)[0].confidence == "medium"
        traces[2] = rank(2, *traces[2].groups, notes_messages=False, stack=("sleep (train.py:3)",))
        assert locate(traces)[0].confidence == "high"

    def test_a_stack_tells_what_the_culprit_does(self):
        """A late rank that waits for data is told from one that saves a checkpoint."""
        for frame, kind in (
            ("get (torch/utils/data/dataloader.py:1)", "process.data_stuck"),
            ("save (torch/serialization.py:9)", "process.save_stuck"),
        ):
            traces = [rank(t.rank, *t.groups, stack=(frame,) if t.rank == 2 else ()) for t in hung()]
            assert named(locate(traces)) == [(kind, "rank 2")]

    def test_a_mark_tells_it_too(self):
        """A rank whose progress mark says that it saves is stuck in saving."""
        traces = [rank(t.rank, *t.groups, phase="saving", step=4) if t.rank == 2 else t for t in hung()]
        (found,) = locate(traces)
        assert found.fault_class == "process.save_stuck"
        assert "rank 2 was in step 4, saving" in [each.text for each in found.evidence]

    def test_a_device_that_did_not_begin_is_told_from_a_host_that_did_not_call(self):
        """Where traces tell of the device, an entry on the host proves nothing."""
        traces = [rank(n, group(7)) for n in WORLD if n != 2]
        queued = group_trace(
            "0", [*map(collective, range(1, 7)), collective(7, state="enqueued")], members=WORLD, description="0"
        )
        (found,) = locate([*traces, rank(2, queued)])
        assert (found.fault_class, found.culprit.name) == ("gpu.hang", "rank 2")


class TestAcrossGroups:
    def test_waits_lead_to_the_rank_that_waits_for_nobody(self):
        """Rank 0 waits for 1 in one group, 1 for 3 in another: 3 is named, 1 only suffers."""
        traces = [
            rank(0, group(5, "tp-a", (0, 1))),
            rank(1, group(4, "tp-a", (0, 1), inside=False), group(5, "dp-b", (1, 3))),
            rank(2, group(4, "tp-b", (2, 3), inside=False), group(5, "dp-a", (0, 2), inside=False)),
            rank(3, group(4, "tp-b", (2, 3), inside=False), group(4, "dp-b", (1, 3), inside=False)),
        ]
        (found,) = locate(traces)
        assert (found.culprit.name, found.sufferers) == ("rank 3", (0, 1))

    def test_two_faults_are_two_findings(self):
        """Two ranks that hold up a group each are both named."""
        traces = [
            rank(0, group(5, "a", (0, 1))),
            rank(1, group(4, "a", (0, 1), inside=False)),
            rank(2, group(5, "b", (2, 3))),
            rank(3, group(4, "b", (2, 3), inside=False)),
        ]
        assert sorted(named(locate(traces))) == [("process.hang", "rank 1"), ("process.hang", "rank 3")]

    def test_groups_of_one_name_and_other_members_are_apart(self):
        """Split groups may share a name; their members tell them apart."""
        board = lay_out([rank(0, group(5, "s", (0, 1))), rank(2, group(5, "s", (2, 3)))], Liveness())
        assert board.groups == ("s", "s")
        assert board.ranks[board.seat_rank].tolist() == [0, 1, 2, 3]

    def test_opposite_orders_are_the_codes_fault(self):
        """One rank in group a and one in group b, each waited for in the other: the order differs."""
        traces = [
            rank(0, group(5, "a", (0, 1)), group(4, "b", (0, 1), inside=False)),
            rank(1, group(4, "a", (0, 1), inside=False), group(5, "b", (0, 1))),
        ]
        (found,) = locate(traces)
        assert (found.fault_class, found.culprit.kind) == ("user.collective_mismatch", "code")
        assert "in one order" in found.advice

    def test_the_fewer_have_the_wrong_order(self):
        """Of four ranks three agree on the order, so the fourth is named."""
        first, second = ("a", WORLD), ("b", WORLD)
        traces = [rank(n, group(5, *first), group(4, *second, inside=False)) for n in (0, 1, 3)]
        traces.append(rank(2, group(4, *first, inside=False), group(5, *second)))
        assert named(locate(traces)) == [("user.collective_mismatch", "rank 2")]

    def test_a_circle_of_three_names_who_stopped_first(self):
        """No two ranks contradict each other; the first to stop is a guess and said to be one."""
        pairs = {0: ("a", (0, 1)), 1: ("b", (1, 2)), 2: ("c", (2, 0))}
        traces = []
        for n, (own, members) in pairs.items():
            other = pairs[(n + 2) % 3]
            traces.append(
                rank(
                    n,
                    group(5, own, tuple(sorted(members)), started_us=100 - n),
                    group(4, other[0], tuple(sorted(other[1])), inside=False),
                )
            )
        (found,) = locate(traces)
        assert (found.culprit.name, found.confidence) == ("rank 2", "low")

    def test_a_rank_inside_an_untraced_collective_is_not_blamed(self):
        """Two ranks are late, one of them by its stack in a receive that no trace holds: the other is named."""
        traces = hung()
        traces[1] = rank(1, group(6, inside=False), stack=("recv (torch/distributed/distributed_c10d.py:2)",))
        assert named(locate(traces)) == [("process.hang", "rank 2")]

    def test_a_stack_breaks_a_circle(self):
        """A rank that waits for data has an asynchronous collective open; its stack tells that it is not inside."""
        pairs = {0: ("a", (0, 1)), 1: ("b", (1, 2)), 2: ("c", (2, 0))}
        traces = []
        for n, (own, members) in pairs.items():
            other, those = pairs[(n + 2) % 3]
            groups = group(5, own, tuple(sorted(members))), group(4, other, tuple(sorted(those)), inside=False)
            stack = ("get (torch/utils/data/dataloader.py:1)",) if n == 1 else ()
            traces.append(rank(n, *groups, stack=stack))
        assert named(locate(traces)) == [("process.data_stuck", "rank 1")]


class TestUntraced:
    def replicas(self) -> list[RankTraceOfGroups]:
        """Make two replicas of two stages with TP 2, whose messages are not traced; rank 2 never enters its TP group.

        Ranks 0 and 1 are the first stage of replica 0, 2 and 3 its second, 4 to 7 replica 1, which did all its work.
        """
        traces = []
        for n in range(8):
            pair, across = (n // 2 * 2, n // 2 * 2 + 1), (n % 4, n % 4 + 4)
            tp = group(5 if n == 3 else 4, f"tp-{n // 2}", pair, inside=n == 3)
            dp = group(2 if n > 3 else 1, f"dp-{n % 4}", across, inside=n > 3)
            traces.append(rank(n, tp, dp, notes_messages=False))
        return traces

    def test_a_pair_that_idles_alike_is_not_blamed(self):
        """The first stage idles as a whole, for it waits for gradients; of the second, one is inside and one is not."""
        assert named(locate(self.replicas())) == [("process.hang", "rank 2")]

    def test_a_pair_that_idles_is_named_where_nothing_else_is(self):
        """If nobody else is to blame, the idle pair is all there is."""
        traces = self.replicas()
        tp = group(4, "tp-1", (2, 3), inside=False)
        for n in (2, 3):
            traces[n] = rank(n, tp, traces[n].groups[1], notes_messages=False)
        assert {name for _, name in named(locate(traces))} == {f"rank {n}" for n in range(4)}


class TestLostTraces:
    def job(self, *lost: int) -> list[RankTraceOfGroups]:
        """Make pairs 0-1, 2-3, 4-5 whose even ranks are a group too: rank 5 is late, its pair and their group wait."""
        evens = (0, 2, 4)
        pairs = {0: (0, 1), 2: (2, 3), 4: (4, 5)}
        made = []
        for number in range(6):
            pair = pairs[number // 2 * 2]
            groups = [group(7, f"tp{pair[0]}", pair, inside=number == 4)]
            if number == 5:
                groups = [group(6, f"tp{pair[0]}", pair, inside=False)]
            if number in evens:
                groups.append(group(3 if number == 4 else 4, "dp", evens, inside=number != 4))
            made.append(rank(number, *groups))
        return [each for each in made if each.rank not in lost]

    @pytest.mark.parametrize("states", [{}, alive(tuple(range(6)))], ids=["nobody asked", "all run"])
    @pytest.mark.parametrize("lost", [(0,), (2,), (0, 2)])
    def test_a_lost_trace_is_no_suspect_where_another_explains_the_wait(self, lost, states):
        """Who waits for the rank without a trace waits for a late one that is traced, too: that one alone is named."""
        found = locate(self.job(*lost), Liveness(ranks=states))
        assert named(found) == [("process.hang", "rank 5")]

    def test_a_lost_trace_is_named_where_nothing_else_explains_the_wait(self):
        """The late rank's own trace is the lost one, so it is named for want of others."""
        assert [each.culprit.name for each in locate(self.job(5))] == ["rank 5"]

    def test_a_rank_known_to_be_gone_is_named_beside(self):
        """What is asked of a process counts more than whether its trace came."""
        gone = {2: RankState(state="unreachable")}
        found = locate(self.job(2), Liveness(ranks=gone))
        assert sorted(each.culprit.name for each in found) == ["rank 2", "rank 5"]

    def test_a_host_without_any_trace_is_still_lost(self):
        """Not one rank of a host left a trace: that is no loss of single dumps, so the one that is missed is named."""
        hosts = {number: RankState(host=f"node-{number // 2}") for number in range(6)}
        found = locate(self.job(2, 3), Liveness(ranks=hosts))
        assert sorted(each.culprit.name for each in found) == ["rank 2", "rank 5"]

    def test_a_rank_that_entered_nothing_is_said_so(self):
        """No number is made up for a rank that had not entered any collective of the group yet."""
        late = rank(2, group(1, "alone", (2,), inside=False))
        found = locate([rank(0, group(1, members=WORLD[:3])), rank(1, group(1, members=WORLD[:3])), late])
        assert "its trace shows none there" in found[0].evidence[0].text


class TestMessages:
    def pipeline(self, *, both: bool) -> list[RankTraceOfGroups]:
        """Make two stages: the second receives; both: the first is at its end of the message."""
        receive = Collective(sequence=0, operation="receive", state="started", peer=0)
        send = Collective(sequence=0, operation="send", state="started", peer=1)
        return [
            rank(0, group_trace("pp", (), members=(0, 1), messages=(send,) if both else ())),
            rank(1, group_trace("pp", (), members=(0, 1), messages=(receive,))),
        ]

    def test_a_receive_waits_for_its_sender(self):
        """The stage that does not send is named."""
        (found,) = locate(self.pipeline(both=False))
        assert (found.fault_class, found.culprit.name) == ("process.hang", "rank 0")
        assert found.evidence[0].text == "1 rank waits in pp to receive; rank 0 is not at its end of it"

    def test_both_ends_there_is_unknown_until_probed(self):
        """With both ends at the message nobody is to blame; a failed probe names the link."""
        assert named(locate(self.pipeline(both=True))) == [("unknown", "")]
        probe = Liveness(ranks=alive((0, 1)), probes=(LinkProbe(first=0, second=1, ok=False),))
        assert named(locate(self.pipeline(both=True), probe)) == [("process.link_stall", "rank 0 - rank 1")]

    def test_without_peers_the_idle_member_is_waited_for(self):
        """A ring does not tell a message's peer: whoever has none open in the group is waited for."""
        receive = Collective(sequence=0, operation="receive", state="started", peer=-1)
        stages = [group_trace("pp", (), members=(0, 1, 2), messages=() if n == 1 else (receive,)) for n in range(3)]
        assert named(locate([rank(n, stage) for n, stage in enumerate(stages)])) == [("process.hang", "rank 1")]


class TestMismatch:
    def different(self, **fields: object) -> list[RankTraceOfGroups]:
        """Make four ranks in one collective, of which rank 1 does another."""
        return [rank(n, group(7, **(fields if n == 1 else {}))) for n in WORLD]

    @pytest.mark.parametrize("fields", [{"operation": "broadcast"}, {"dtype": "Float"}, {"size": 32}])
    def test_the_odd_one_is_named(self, fields: dict[str, object]):
        """Another operation, type or size than the others' is a mismatch."""
        traces = [rank(n, group(7, **({"dtype": "Half"} | (fields if n == 1 else {})))) for n in WORLD]
        (found,) = locate(traces)
        assert (found.fault_class, found.culprit.name) == ("user.collective_mismatch", "rank 1")
        assert found.remedy == "fix_user_code"

    def test_what_is_not_told_is_no_difference(self):
        """A rank whose trace has no size, or no type, does not differ by that."""
        assert named(locate(self.different(size=-1))) == [("unknown", "")]

    def test_halves_are_the_codes_fault(self):
        """With two against two, no rank is singled out."""
        traces = [rank(n, group(7, size=32 if n < 2 else 64)) for n in WORLD]
        (found,) = locate(traces)
        assert (found.culprit.kind, found.confidence, found.ranks) == ("code", "medium", WORLD)

    def test_groups_of_the_same_kind_decide_between_halves(self):
        """In a pair that disagrees, the one that differs from the other pairs is named."""
        pairs = [(0, 1), (2, 3), (4, 5)]
        traces = []
        for pair in pairs:
            for n in pair:
                running = collective(3, running=True, size=32 if n == 3 else 64)
                done = group_trace(
                    f"tp-{pair}", [collective(1), collective(2), running], description="tp", members=pair
                )
                traces.append(rank(n, done))
        assert ("user.collective_mismatch", "rank 3") in named(locate(traces))

    def test_one_left_out_is_said(self):
        """A rank whose collective is the others' next one left one out."""
        usual = [collective(1), collective(2, running=True, size=64), collective(3, running=True, size=16)]
        odd = [collective(1), collective(2, running=True, size=16)]
        traces = [rank(n, group_trace("0", odd if n == 3 else usual, members=WORLD)) for n in WORLD]
        assert locate(traces)[0].evidence[0].text.endswith("; it left one out")

    def test_who_died_of_it_is_not_named(self):
        """Some libraries end a process that gets too much; the mismatch explains its end."""
        traces = [rank(n, group(7, size=128 if n == 3 else 64)) for n in (0, 1, 3)]
        died = Liveness(ranks=alive(rank2=RankState(state="exited", exit_code=-6)))
        assert named(locate(traces, died)) == [("user.collective_mismatch", "rank 3")]

    def test_an_earlier_mismatch_explains_a_later_hang(self):
        """A wrong size that passed unnoticed is found when a later collective hangs."""
        odd = [collective(6, size=32), *map(collective, range(7, 9))]
        usual = [*map(collective, range(6, 9)), collective(9, running=True)]
        traces = [rank(n, group_trace("0", odd if n == 0 else usual, members=WORLD)) for n in WORLD]
        (found,) = locate(traces)
        assert (found.fault_class, found.culprit.name) == ("user.collective_mismatch", "rank 0")


class TestLiveness:
    def inside(self) -> list[RankTraceOfGroups]:
        """Make four ranks that are all inside."""
        return [rank(n, group(7)) for n in WORLD]

    def test_all_entered_is_unknown(self):
        """Nobody is late and nothing was asked: unknown, and whom to ask."""
        (found,) = locate(self.inside())
        assert (found.fault_class, found.culprit.kind, found.confidence) == ("unknown", "unknown", "low")
        assert found.advice.startswith("ask whether the process of ranks 0-3 runs")

    def test_a_stopped_process_may_have_entered(self):
        """Of ranks that all entered, the stopped one is named."""
        found = locate(self.inside(), Liveness(ranks=alive(rank1=RankState(state="stopped"))))
        assert named(found) == [("process.stopped", "rank 1")]
        assert "which it entered" in found[0].evidence[0].text

    def test_a_link_needs_a_failed_probe(self):
        """All answer: links are to be probed. A failed probe names one, a good one none."""
        (asked,) = locate(self.inside(), Liveness(ranks=alive()))
        assert asked.advice == "all of ranks 0-3 answer: probe the links between them"
        good = LinkProbe(first=0, second=1, gbytes_s=40.0)
        assert named(locate(self.inside(), Liveness(ranks=alive(), probes=(good,)))) == [("unknown", "")]
        bad = LinkProbe(first=3, second=1, ok=False, detail="no answer in 5 s")
        found = locate(self.inside(), Liveness(ranks=alive(), probes=(good, bad)))
        assert named(found) == [("process.link_stall", "rank 1 - rank 3")]
        assert found[0].evidence[-1].text == "probe between rank 3 and rank 1: failed, no answer in 5 s"

    def test_a_stopped_process_comes_before_a_link(self):
        """A probe to a stopped process fails, too; the process is named, not the link."""
        bad = LinkProbe(first=1, second=3, ok=False)
        found = locate(self.inside(), Liveness(ranks=alive(rank1=RankState(state="stopped")), probes=(bad,)))
        assert named(found) == [("process.stopped", "rank 1")]

    def test_a_dead_process_is_named_with_its_code(self):
        """Whoever ended by a signal died; its exit code is evidence."""
        gone = Liveness(ranks=alive(rank2=RankState(state="exited", exit_code=-9)))
        (found,) = locate([trace for trace in hung() if trace.rank != 2], gone)
        assert (found.fault_class, found.confidence) == ("process.died", "high")
        assert "rank 2: exited with code -9" in [each.text for each in found.evidence]

    def test_a_normal_end_is_uneven_data(self):
        """A rank that ended well while others wait had less to do."""
        gone = Liveness(ranks=alive(rank2=RankState(state="exited", exit_code=0)))
        assert named(locate(hung(), gone)) == [("user.uneven_data", "rank 2")]

    def test_later_exits_are_what_the_first_did(self):
        """All ranks ended; the first exit counts, the others came minutes later."""
        exits = {n: RankState(state="exited", exit_code=1, at_us=0 if n == 2 else 600_000_000) for n in WORLD}
        assert named(locate(hung(), Liveness(ranks=exits))) == [("process.died", "rank 2")]

    def test_all_ended_without_times_says_nothing_of_exits(self):
        """A job that was torn down as a whole is judged by its traces."""
        exits = {n: RankState(state="exited", exit_code=1) for n in WORLD}
        assert named(locate(hung(), Liveness(ranks=exits))) == [("process.died", "rank 2")]
        assert named(locate([rank(n, group(7)) for n in WORLD], Liveness(ranks=exits))) == [("unknown", "")]

    def test_a_host_with_all_ranks_gone_is_named(self):
        """Both ranks of a host do not answer: the host is down, once, with both ranks."""
        states = {n: RankState(state="running", host="a") for n in (0, 1)}
        states |= {n: RankState(state="unreachable", host="b") for n in (2, 3)}
        (found,) = locate([rank(n, group(7)) for n in (0, 1)], Liveness(ranks=states))
        assert (found.fault_class, found.culprit.kind, found.culprit.name) == ("node.down", "host", "b")
        assert (found.ranks, found.hosts) == ((2, 3), ("b",))

    def test_a_host_is_known_by_its_numbers(self):
        """Ranks 2 and 3 left nothing; ranks come in pairs a host, so theirs is down, unnamed."""
        traces = [rank(n, group(7, members=(0, 1, 2, 3, 4, 5)), host="abc"[n // 2]) for n in (0, 1, 4, 5)]
        (found,) = locate(traces)
        assert (found.fault_class, found.culprit.name, found.confidence) == ("node.down", "host of ranks 2-3", "medium")

    def test_half_a_host_gone_is_not_the_host(self):
        """One of two ranks of a host answers: only the other is named."""
        states = {n: RankState(state="running", host="ab"[n // 2]) for n in WORLD}
        states[3] = RankState(state="unreachable", host="b")
        assert named(locate(hung(late=3)[:3], Liveness(ranks=states))) == [("process.died", "rank 3")]

    def test_a_living_rank_without_a_trace_hangs(self):
        """A process that runs and can't dump keeps its interpreter busy."""
        found = locate([trace for trace in hung() if trace.rank != 2], Liveness(ranks=alive()))
        assert named(found) == [("process.hang", "rank 2")]
        assert "lives but wrote no trace" in found[0].advice


class TestSlow:
    def rounds(
        self, late_us: dict[int, int], *, ends: bool = True, members: tuple[int, ...] = WORLD
    ) -> list[RankTraceOfGroups]:
        """Make eight rounds 100 ms apart, to which some ranks come late."""
        traces = []
        last_us = max(late_us.values(), default=0)
        for n in members:
            begins = [100_000 * k + late_us.get(n, 0) for k in range(1, 9)]
            done = [
                collective(k, enqueued_us=begin, finished_us=100_000 * k + last_us + 1_000 if ends else None)
                for k, begin in enumerate(begins, start=1)
            ]
            traces.append(rank(n, group_trace("0", done, members=members)))
        return traces

    @pytest.mark.parametrize("ends", [True, False])
    def test_the_last_to_come_is_named(self, ends: bool):
        """A rank that comes 40 ms late to each collective is slow, with and without end times."""
        assert named(locate(self.rounds({1: 40_000}, ends=ends))) == [("process.slow_rank", "rank 1")]

    def test_slow_ranks_are_ranked(self):
        """The list of slow ranks begins with the worst and says how much it costs."""
        found = locate(self.rounds({1: 40_000, 3: 35_000}))
        assert [each.culprit.name for each in found] == ["rank 1", "rank 3"]
        assert "comes 40.0 ms after" in found[0].evidence[0].text
        assert "is 40% of the time" in found[0].evidence[0].text
        assert "is 35% of the time" in found[1].evidence[0].text

    def test_jitter_is_not_slow(self):
        """A few milliseconds of a hundred are no fault."""
        assert locate(self.rounds({0: 3_000, 1: 5_000})) == ()

    def test_clocks_apart_do_not_make_a_rank_slow(self):
        """Times of entry and end move together with a clock, and the wait inside stays."""
        traces = self.rounds({})
        moved = [
            collective(each.sequence, enqueued_us=each.enqueued_us + 50_000, finished_us=each.finished_us + 50_000)
            for each in traces[1].groups[0].collectives
        ]
        traces[1] = rank(1, group_trace("0", moved, members=WORLD))
        assert locate(traces) == ()

    def test_a_delay_that_is_passed_on_is_followed(self, benchmark):
        """A slow rank's TP group comes late to DP as a whole; only the rank itself is named."""
        job_of = benchmark("locate_job")
        job = job_of.Job(tp=4, pp=1, dp=4)
        assert named(locate(list(job_of.timed(job, slow_rank=6)), job.liveness())) == [("process.slow_rank", "rank 6")]

    def test_a_slow_link_needs_a_probe(self, benchmark):
        """Slow transfers of one group point at its hosts; a slow probe between two of them names the link."""
        job_of = benchmark("locate_job")
        job = job_of.Job(tp=8, pp=1, dp=4)
        traces = list(job_of.timed(job, slow_groups=["dp 0.0.3"]))
        (asked,) = locate(traces, job.liveness())
        assert (asked.fault_class, asked.culprit.kind, asked.ranks) == ("network.slow", "unknown", (3, 11, 19, 27))
        job.probes = [LinkProbe(first=n, second=n + 8, gbytes_s=48.0) for n in (0, 1, 2)]
        job.probes.append(LinkProbe(first=3, second=19, gbytes_s=6.0))
        assert named(locate(traces, job.liveness())) == [("network.slow", "node-0 - node-2")]


class TestBoard:
    def test_gaps_in_the_world_are_ranks_without_a_trace(self):
        """Torch's default group has all ranks, though gloo's dump does not list them."""
        world = [group_trace("0", [collective(1, running=True)], description="default_pg") for _ in range(2)]
        board = lay_out([rank(0, world[0]), rank(3, world[1])], Liveness())
        assert board.ranks[board.seat_rank[board.silent]].tolist() == [1, 2]

    def test_a_stray_number_invents_no_ranks(self):
        """A date taken for a rank does not make a job of twenty million."""
        board = lay_out([rank(0, group(1)), rank(20_261_130, group(1))], Liveness())
        assert len(board.ranks) < 10

    def test_of_two_traces_of_a_rank_the_last_counts(self):
        """A rank that dumped twice is taken as it was last."""
        board = lay_out([rank(0, group(5)), rank(0, group(6))], Liveness())
        assert board.enqueued[:1].tolist() == [6]

    def test_held_by_follows_every_wait(self):
        """Whoever waits for a waiter is held by the same root."""
        board = lay_out(hung(), Liveness())
        waits = follow(board, np.zeros(4, dtype=bool), np.zeros(4, dtype=bool), 0)
        assert waits.held_by([2]).tolist() == [True, True, False, True]
        assert not waits.cycles().any()
