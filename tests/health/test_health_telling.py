"""Clues in a person's words, and what logs say of processes that died."""

from argosy.health.intake import take_in
from argosy.health.liveness import liveness_of


class TestWords:
    def test_a_code_is_told_by_its_meaning(self, judged):
        """An Xid is said with its GPU and what it means, not as the register dump it comes in."""
        text = judged("NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus.")[0].evidence[0].text
        assert text == "Xid 79 on 0000:5d:00: the GPU fell off its bus"

    def test_hosts_that_say_the_same_are_counted(self, judged):
        """Many hosts become the first and how many others."""
        line = "2026-11-30T14:02:11 node-{} kernel: nfs: server 10.0.0.9 not responding, still trying"
        assert judged(*map(line.format, range(4)))[0].evidence[0].source == "node-0 kernel and 3 others, job.log:1"


class TestLiveness:
    def test_a_death_by_a_signal_is_known(self, whole_scanner):
        """The launcher's report of SIGKILL names the rank, its host and when."""
        report = (
            "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-30_21:12:15\n  host      : node-b\n"
            "  rank      : 3 (local_rank: 1)\n  exitcode  : -9 (pid: 4711)\n"
        )
        state = liveness_of(take_in([("job.log", report.encode())], whole_scanner).sightings).ranks[3]
        assert (state.state, state.exit_code, state.host) == ("exited", -9, "node-b")

    def test_who_aborts_is_not_dead_first(self, whole_scanner):
        """A rank that aborted itself, or was told to stop, followed somebody else."""
        text = "".join(
            f"  rank      : {rank} (local_rank: 0)\n  exitcode  : {code} (pid: 1)\n"
            for rank, code in ((1, -6), (2, -15))
        )
        assert liveness_of(take_in([("job.log", text.encode())], whole_scanner).sightings).ranks == {}

    def test_the_kernels_victim_is_known_by_its_process(self, whole_scanner):
        """The kernel names a process; which rank that was, another line tells."""
        text = (
            "node-b:4711:4720 [1] NCCL INFO comm 0x5 rank 3 nranks 8 - Init COMPLETE\n"
            "2026-11-30T14:00:00Z node-b kernel: Out of memory: Killed process 4711 (python) total-vm:87033376kB\n"
            "  rank      : 3 (local_rank: 1)\n  exitcode  : -9 (pid: 4711)\n"
        )
        state = liveness_of(take_in([("job.log", text.encode())], whole_scanner).sightings).ranks[3]
        assert (state.state, state.exit_code) == ("exited", -9)

    def test_the_ranks_of_a_lost_host_do_not_answer(self, whole_scanner):
        """A host that the scheduler lost takes its ranks with it."""
        text = (
            "node-b:4711:4720 [1] NCCL INFO comm 0x5 rank 3 nranks 8 - Init COMPLETE\n"
            "srun: error: Node failure on node-b\n"
        )
        assert liveness_of(take_in([("job.log", text.encode())], whole_scanner).sightings).ranks[3].state == (
            "unreachable"
        )

    def test_slurm_tells_deaths_by_name(self, whole_scanner):
        """A task that ran out of memory died by itself; one that was terminated did not."""
        text = "srun: error: node-b: task 3: Out Of Memory\nsrun: error: node-b: task 4: Terminated\n"
        assert set(liveness_of(take_in([("job.log", text.encode())], whole_scanner).sightings).ranks) == {3}
