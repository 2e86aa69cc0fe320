"""From sightings and findings to Incidents: causes before symptoms, culprits by name, unknown where nothing tells."""

import pytest

from argosy.contracts.incident import REMEDIES, Culprit, Evidence
from argosy.health.finding import Finding

WATCHDOG = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:563] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn=2200, NumelOut=2200, Timeout(ms)=600000) ran for 600037 "
    "milliseconds before timing out."
)


def watchdog(rank: int, sequence: int = 157, operation: str = "ALLREDUCE") -> str:
    """Write a time-out as PyTorch prints it."""
    return WATCHDOG.format(rank=rank, sequence=sequence, operation=operation)


def finding(**changes) -> Finding:
    """Make a finding of a hang of rank 2."""
    values = {
        "fault_class": "process.hang",
        "culprit": Culprit(kind="rank", name="rank 2"),
        "confidence": "high",
        "remedy": "fix_user_code",
        "advice": "Take its stack.",
        "evidence": (Evidence(source="rank2.pkl", text="never entered all-reduce 6"),),
        "sufferers": (0, 1),
        "ranks": (2,),
    }
    return Finding(**{**values, **changes})


class TestCause:
    def test_a_deep_cause_comes_before_what_follows_from_it(self, judged):
        """A driver's ECC error is the cause of the CUDA error and of the time-outs of others."""
        found = judged(
            "2026-11-30 14:02:11.911 [rank139]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "2026-11-30 14:02:11.208 node-17 kernel: NVRM: Xid (PCI:0000:5d:00): 95, pid=1, name=python, Uncontained",
            "2026-11-30 14:12:11.300 " + watchdog(3),
        )
        assert len(found) == 1
        assert (found[0].fault_class, found[0].culprit) == (
            "gpu.ecc_uncontained",
            Culprit(kind="chip", name="node-17 chip 0000:5d:00 (rank 139)"),
        )
        assert found[0].confidence == "high"
        assert found[0].sufferers == ("rank 3",)

    def test_a_time_out_is_no_cause(self, judged):
        """Out of memory on one rank explains the others' time-outs, whatever the order of lines."""
        found = judged(watchdog(5), watchdog(3), "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB")
        assert (found[0].fault_class, found[0].culprit.name, found[0].sufferers) == (
            "gpu.oom",
            "rank 2",
            ("ranks 3, 5",),
        )

    def test_the_first_of_many_that_say_the_same_is_the_culprit(self, judged):
        """Where a fault spreads, only the order of time tells who began."""
        line = "[rank{1}]: 2026-11-30 17:34:{0} CUDA error: Invalid access of peer GPU memory over nvlink"
        found = judged(line.format("43.0", 9), line.format("36.5", 2), line.format("37.8", 4))
        assert len(found) == 1
        assert "2" in found[0].culprit.name

    def test_two_broken_hosts_are_two_incidents(self, judged):
        """Hardware faults of two hosts at one time do not explain each other."""
        found = judged(
            "2026-11-30T14:02:11 node-1 kernel: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus.",
            "2026-11-30T14:02:13 node-9 kernel: NVRM: Xid (PCI:0000:1a:00): 48, DBE (double bit error) ECC Error",
        )
        assert [(each.fault_class, each.culprit.name) for each in found] == [
            ("gpu.lost", "node-1 chip 0000:5d:00"),
            ("gpu.ecc_uncorrectable", "node-9 chip 0000:1a:00"),
        ]

    def test_faults_hours_apart_are_two_incidents(self, judged):
        """A log of several attempts holds several faults; each has the symptoms that came after it."""
        found = judged(
            "2026-11-30 10:00:00 [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "2026-11-30 10:10:00 " + watchdog(0),
            "2026-11-30 15:00:00 [rank4]: OSError: [Errno 28] No space left on device",
        )
        assert [each.fault_class for each in found] == ["gpu.oom", "storage.disk_full"]
        assert found[1].sufferers == ()

    def test_what_several_lines_mean_together(self, judged):
        """A loopback address refused is a stale store once a worker was restarted."""
        refused = "Gloo connectFullMesh failed with [pair.cc:152] SO_ERROR: Connection refused, remote=[127.0.0.1]:4019"
        assert judged(refused)[0].fault_class == "config.gloo_loopback"
        restarted = "failed (exitcode: -9) local_rank: 2 (pid: 14964) of binary: python3"
        assert judged(restarted, refused)[0].fault_class == "launcher.stale_store"

    def test_a_name_on_another_line_of_a_record_counts(self, judged):
        """The kernel writes a lost GPU over several lines; the first names it."""
        found = judged(
            "NVRM: The NVIDIA GPU 0000:b3:00.0",
            "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
            "               NVRM: fallen off the bus and is not responding to commands.",
        )
        assert found[0].culprit == Culprit(kind="chip", name="chip 0000:b3:00.0")

    def test_the_peer_that_several_complain_of_is_the_culprit(self, judged):
        """One host that two others can't reach is named, not the first that complains."""
        line = "{}:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<37948> with error 12, opcode 0"
        assert judged(line.format("node-a"), line.format("node-b"))[0].culprit == Culprit(kind="host", name="10.0.0.7")

    def test_a_drivers_own_advice_is_passed_on(self, judged):
        """Where the driver recommends something, the advice says so."""
        found = judged(
            "NVRM: Xid (PCI:0000:5d:00): 95, pid=1, name=python, Uncontained",
            "NVRM: Xid (PCI:0000:5d:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        )
        assert "GPU Reset Required" in found[0].advice

    def test_ports_come_up_after_a_boot(self, judged):
        """A port that is down in a host's first minutes is no fault; later it is."""
        line = "[{}] mlx5_core 0000:5e:00.0 ens1f0np0: Link down"
        assert judged(line.format("   12.345678")) == ()
        assert judged(line.format("91234.345678"))[0].fault_class == "network.link_flap"


class TestOwnError:
    XID = "2026-11-30T15:00:00Z node-17 kernel: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."
    KEY = "[rank3]: 2026-11-30T15:00:07Z KeyError: 'tokens'"

    def test_a_chip_and_a_program_that_nothing_joins_are_two_incidents(self, judged):
        """A lost GPU raises no KeyError, so each is told, and neither surely."""
        found = judged(self.XID, self.KEY)
        assert [(each.fault_class, each.confidence) for each in found] == [
            ("gpu.lost", "medium"),
            ("user.exception", "low"),
        ]
        assert all(self.KEY[-8:] not in item.text for item in found[0].evidence)

    def test_an_error_of_the_chip_joins_them(self, judged):
        """Where a process met the chip's fault, what it raises besides comes of that."""
        met = "[rank3]: 2026-11-30T15:00:05Z torch.AcceleratorError: CUDA error: unspecified launch failure"
        (found,) = judged(self.XID, met, self.KEY)
        assert (found.fault_class, found.confidence) == ("gpu.lost", "high")

    def test_those_who_waited_before_it_join_them(self, judged):
        """A process that fails after others timed out is not the first to fail."""
        waited = "2026-11-30T15:00:03Z " + watchdog(1)
        (found,) = judged(self.XID, waited, self.KEY)
        assert (found.fault_class, found.confidence) == ("gpu.lost", "high")

    def test_another_kind_in_the_family_confirms_nothing(self, judged):
        """A kernel's bad address and a KeyError are both the user's, and not akin."""
        found = judged(self.XID.replace("79, GPU has fallen off the bus.", "31, MMU Fault"), self.KEY)
        assert {each.confidence for each in found} == {"low"}


class TestConfirmed:
    REPORT = (
        "  time      : 2026-12-01_01:10:05\n  host      : node1\n  rank      : 2 (local_rank: 2)\n"
        "  exitcode  : {code} (pid: 102)"
    )

    @pytest.mark.parametrize("prefix", ["", "[rank2]: "])
    def test_a_launcher_that_saw_this_rank_end_first_makes_it_surer(self, judged, prefix: str):
        """An error that nobody caught ends a Python program with exit code 1, and the launcher says which rank."""
        (found,) = judged(prefix + "KeyError: 'labels'", "ChildFailedError:\n" + self.REPORT.format(code=1))
        assert (found.fault_class, found.confidence, found.culprit.name) == ("user.exception", "medium", "rank 2")

    @pytest.mark.parametrize(
        ("lines", "code"),
        [(("[rank5]: KeyError: 'labels'",), 1), (("KeyError: 'a'", "TypeError: b"), 1), (("KeyError: 'a'",), 3)],
    )
    def test_else_it_does_not(self, judged, lines: tuple[str, ...], code: int):
        """Another rank's error, one of several that name no rank, and another exit code prove nothing more."""
        found = judged(*lines, "ChildFailedError:\n" + self.REPORT.format(code=code))
        assert (found[0].fault_class, found[0].confidence) == ("user.exception", "low")


class TestUnknown:
    def test_a_rank_left_out_between_those_that_wait_is_named(self, judged):
        """Ranks are numbered from 0 on; of two that wait nothing follows."""
        found = judged(*(watchdog(rank) for rank in range(8) if rank != 5))
        assert (found[0].fault_class, found[0].confidence, found[0].culprit.name) == ("process.hang", "low", "rank 5")
        assert judged(watchdog(0), watchdog(2))[0].fault_class == "unknown"

    def test_the_word_of_one_end_alone_is_told_as_that(self, judged):
        """One end of a link can't tell the link's fault from its peer's."""
        line = "node-a:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<37948> with error 12, opcode 0"
        assert "Only who waits says so" in judged(line)[0].advice
        assert "Only who waits says so" not in judged(line, watchdog(1))[0].advice

    @pytest.mark.parametrize("line", ["EI0006: Getting socket times out. Reason: Remote Rank did not send the data."])
    def test_a_code_that_points_elsewhere_has_a_remedy_all_the_same(self, judged, line: str):
        """What to follow is said in the advice; the remedy is one of those that programs know."""
        assert judged(line)[0].remedy in REMEDIES

    def test_symptoms_alone_are_unknown(self, judged):
        """When every rank times out and nothing else is seen, the answer is that nobody can tell."""
        found = judged(watchdog(0), watchdog(1))
        assert (found[0].fault_class, found[0].confidence, found[0].culprit.kind) == ("unknown", "low", "unknown")

    def test_who_ended_first_by_itself_is_the_one_to_ask(self, judged):
        """A launcher's summary names no cause, but the rank whose log may: that one isn't cleared, others are."""
        rank = "  time      : 2026-12-01_01:10:0{0}\n  host      : node1\n  rank      : {1} (local_rank: {1})"
        ends = [(6, 3, -15), (5, 2, 1), (7, 0, 1)]
        lines = [f"{rank.format(second, who)}\n  exitcode  : {code} (pid: 10{who})" for second, who, code in ends]
        (found,) = judged("\n".join(["ChildFailedError:", *lines]))
        assert (found.fault_class, found.culprit.kind) == ("unknown", "unknown")
        assert found.advice.startswith(
            "Read the log of rank 2 on node1 first: it ended before others, with exit code 1."
        )
        assert found.sufferers == ("ranks 0, 3",)

    def test_nothing_wrong_is_no_incident(self, judged):
        """Lines that say nothing bad give nothing."""
        assert judged("step 1 loss 3.9", "step 2 loss 3.8") == ()

    def test_an_unknown_code_is_said_to_be_unknown(self, judged):
        """A code that no table has is a symptom of something."""
        assert judged("NVRM: Xid (PCI:0000:5d:00): 999, new thing")[0].fault_class == "unknown"


class TestProgress:
    def test_the_rank_that_entered_least_is_behind(self, judged):
        """Sequence numbers in logs name the rank that never entered what the others wait in."""
        line = "[PG ID 0 PG GUID 0(default_pg) Rank {}] last enqueued work: {}, last completed work: 5"
        found = judged(*(line.format(rank, 5 if rank == 2 else 6) for rank in range(4)))
        assert (found[0].fault_class, found[0].culprit.name) == ("process.hang", "rank 2")

    def test_ranks_that_enqueue_ahead_are_not_behind(self, judged):
        """Who entered what the others wait in is not behind, however far the others enqueued."""
        line = "[PG ID 0 PG GUID 0(default_pg) Rank {}] last enqueued work: {}, last completed work: 5"
        assert judged(*(line.format(rank, 6 + rank) for rank in range(4))) == ()

    def test_the_rank_without_a_time_out_is_the_one_to_look_at(self, judged):
        """Rank 0 at work while the others time out is work of its own."""
        found = judged(watchdog(1), watchdog(2), "[rank0]: stack: save -> write")
        assert (found[0].fault_class, found[0].culprit.name) == ("user.rank0_only_work", "rank 0")

    def test_a_rank_that_lost_its_peer_holds_nobody_up(self, judged):
        """Who failed since another was gone, before the others' time ran out, does no work of its own."""
        wait = "[rank{}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran"
        lines = [wait.format(rank) + " for 600000 milliseconds before timing out." for rank in (1, 2, 3)]
        lost = "[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection reset by peer [10.0.0.2]:2201"
        assert judged(lost, *lines)[0].fault_class == "unknown"
        assert judged(*lines)[0].culprit.name == "rank 0"

    def test_different_operations_under_one_number_are_a_mismatch(self, judged):
        """Ranks of a group that wait in different collectives took different branches."""
        named = "[rank{0}]:[E] [PG ID 1 PG GUID 1(tp) Rank {0}] " + WATCHDOG.split("] ", 2)[2]
        ranks = [named.format(0, rank=0, sequence=7, operation="ALLREDUCE")] + [
            named.format(rank, rank=rank, sequence=7, operation="BROADCAST") for rank in (1, 2)
        ]
        found = judged(*ranks)
        assert (found[0].fault_class, found[0].culprit.name) == ("user.collective_mismatch", "rank 0")

    def test_a_first_collective_that_never_ends_is_set_up_wrong(self, judged):
        """Ranks that time out in the very first collective never could talk."""
        assert judged(watchdog(0, 1), watchdog(1, 1))[0].fault_class == "config.nccl_init"


class TestFindings:
    def test_a_finding_without_lines_is_an_incident(self, judged):
        """What traces show stands by itself."""
        found = judged("step 1", findings=(finding(),))
        assert [(each.fault_class, each.culprit.name) for each in found] == [("process.hang", "rank 2")]

    def test_a_finding_beats_symptoms(self, judged):
        """Time-outs in a log add nothing to a rank that traces name."""
        found = judged(watchdog(0), watchdog(1), findings=(finding(),))
        assert [each.fault_class for each in found] == ["process.hang"]

    def test_a_line_that_explains_a_finding_is_the_cause(self, judged):
        """A rank stands still since it ran out of memory: one Incident, with the evidence of both."""
        found = judged("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB", findings=(finding(),))
        assert [each.fault_class for each in found] == ["gpu.oom"]
        assert [each.text for each in found[0].evidence][-1] == "never entered all-reduce 6"

    def test_a_fault_elsewhere_does_not_explain_a_finding(self, judged):
        """A full disk of rank 7 and a mismatch of rank 2 are two."""
        other = finding(fault_class="user.collective_mismatch")
        found = judged("[rank7]: OSError: [Errno 28] No space left on device", findings=(other,))
        assert [each.fault_class for each in found] == ["storage.disk_full", "user.collective_mismatch"]


class TestEvidence:
    def test_the_cause_stands_first(self, judged):
        """Evidence begins with the cause, with who said it and where, and counts what is alike."""
        found = judged(watchdog(0), watchdog(1), watchdog(3), "[rank2]: torch.OutOfMemoryError: CUDA out of memory.")
        first, second = found[0].evidence
        assert (first.source, "out of memory" in first.text) == ("rank 2, job.log:4", True)
        assert (second.source, second.text) == ("ranks 0-1, 3, job.log:1", "all-reduce 157 timed out after 600 s")

    def test_it_is_bounded(self, judged):
        """However much is seen, the evidence stays short."""
        lines = [
            f"NVRM: Xid (PCI:0000:5d:00): {code}, x" for code in (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128)
        ]
        assert len(judged(*lines)[0].evidence) <= 12

    def test_hostile_fields_are_harmless(self, judged):
        """Numbers of thousands of digits and empty names do not break judging."""
        found = judged("[PG Rank " + "9" * 5000 + "] last enqueued work: " + "9" * 5000 + ", last completed work: 1")
        assert found == ()


class TestOddOne:
    MISMATCH = (
        "[rank{0}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {0} is running collective: "
        "CollectiveFingerPrint(SequenceNumber=421, OpType=ALLREDUCE, TensorShape=[1]), but Rank {1} is running "
        "collective: CollectiveFingerPrint(SequenceNumber=421, OpType=ALLGATHER, TensorShape=[128])"
    )

    @pytest.mark.parametrize("pairs", [((0, 3), (1, 3)), ((3, 0), (1, 3), (2, 3)), ((5, 2), (4, 2))])
    def test_the_rank_that_all_reports_name_is_the_odd_one(self, judged, pairs):
        """Whoever prints, the one that differs from several others is meant."""
        odd = set.intersection(*map(set, pairs)).pop()
        (found,) = judged(*(self.MISMATCH.format(*pair) for pair in pairs))
        assert found.culprit.name == f"rank {odd}"

    @pytest.mark.parametrize("odd", [0, 3])
    def test_the_one_of_another_size_is_named(self, judged, odd):
        """Three wait with one size under a number, one with another."""
        sizes = {rank: 77 if rank == odd else 1 for rank in range(4)}
        (found,) = judged(*(sized(rank, size) for rank, size in sizes.items()))
        assert (found.fault_class, found.culprit.name) == ("user.collective_mismatch", f"rank {odd}")

    def test_halves_of_two_sizes_may_be_two_groups(self, judged):
        """No group is named, so that nobody is odd."""
        found = judged(*(sized(rank, 1 if rank < 2 else 77) for rank in range(4)))
        assert all(each.fault_class != "user.collective_mismatch" for each in found)


def sized(rank: int, size: int) -> str:
    """Print a time-out of an all-reduce of a size."""
    return (
        f"[rank{rank}]:[E1130 08:10:02.001 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=9101, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size}, "
        f"Timeout(ms)=600000) ran for 600002 milliseconds before timing out."
    )


class TestWhoseLines:
    TRACE = ("rank 6 Traceback (most recent call last):", '  File "train.py", line 3, in step')

    @pytest.mark.parametrize("error", ["RuntimeError: mat1 and mat2 must have the same dtype", "KeyError: 'labels'"])
    def test_an_error_is_of_the_rank_on_the_first_line_of_its_traceback(self, judged, error):
        """The lines after it carry no prefix."""
        assert judged(*self.TRACE, error)[0].culprit.name == "rank 6"

    def test_an_error_far_below_is_nobodys(self, judged):
        """A traceback is not that long."""
        assert judged(self.TRACE[0], *["loss 2.0"] * 90, "KeyError: 'labels'")[0].culprit.name == ""

    @pytest.mark.parametrize("second", ["Namespace:        ml", "Node:             pool-7f/10.128.0.40"])
    def test_a_pods_description_names_it(self, judged, second):
        """Its first line says what all its lines are about, and the lines after it are of others again."""
        block = (
            "Name:             llama-worker-5",
            second,
            "    Last State:     Terminated",
            "      Reason:       OOMKilled",
        )
        (found,) = judged("step 1 loss 2.0", *block, "$ kubectl get pods", "step 2 loss 2.0")
        assert (found.fault_class, found.culprit.name) == ("host.oom", "llama-worker-5")

    @pytest.mark.parametrize("prefix", ["[rank5] ", "[rank5]: ", "node-3 [rank5]: "])
    def test_a_ranks_prefix_is_taken_off(self, judged, prefix):
        """With or without a colon, and after a time and a host."""
        (found,) = judged(f"2026-03-01 10:00:00 {prefix}KeyError: 'labels'")
        assert (found.culprit.name, found.detected_us) == ("rank 5", 1_772_359_200_000_000)
