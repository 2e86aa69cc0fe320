"""Which causes may be why a job ended: order of time, what makes what, guesses, chips lost together, own ends."""

import pytest

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PEER = "torch.distributed.DistBackendError: NCCL error in: remote process exited or there was a network error"
DISK = "kernel: nvme1n1: I/O error, dev nvme1n1, sector 81920 op 0x1:(WRITE) flags 0x0"
XID = "kernel: NVRM: Xid (PCI:0000:{}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def first(incidents) -> tuple[str, str]:
    """Give class and culprit of the first."""
    return incidents[0].fault_class, incidents[0].culprit.name


class TestBystanders:
    @pytest.mark.parametrize("disk", ["09:59:45", "10:00:50", "10:03:00"])
    def test_a_disk_elsewhere_makes_no_gpu_run_out_of_memory(self, judged, disk):
        """Neither a little before nor after, for the program's own end is the first of all failures."""
        lines = (
            f"2026-03-01 10:00:00 node-2 [rank9]: {OOM}",
            f"2026-03-01 10:00:02 node-1 [rank1]: {PEER}",
            f"2026-03-01 {disk} node-7 {DISK}",
        )
        assert judged(*lines)[0].fault_class == "gpu.oom"

    def test_a_machine_that_died_before_counts(self, judged):
        """Peers failed of it before the program's own error came, so that is not the first failure."""
        lines = (
            "2026-03-01 10:00:00 node-7 kernel: Kernel panic - not syncing: Fatal exception",
            f"2026-03-01 10:00:02 node-1 [rank1]: {PEER}",
            f"2026-03-01 10:00:20 node-2 [rank9]: {OOM}",
        )
        assert judged(*lines)[0].fault_class == "node.kernel_panic"

    @pytest.mark.parametrize(
        "own",
        [
            "FloatingPointError: loss is not finite at step 12, aborting",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x2 and 3x4)",
        ],
    )
    def test_a_preemption_after_the_end_is_not_why(self, judged, own):
        """What the job did to itself, and what peers suffered, came before the scheduler's word."""
        lines = (
            f"2026-03-01 10:00:00 node-2 [rank9]: {own}",
            f"2026-03-01 10:00:03 node-1 [rank1]: {PEER}",
            "2026-03-01 10:00:25 node-2 agent: instance node-2 will be preempted in 30 s",
        )
        assert judged(*lines)[0].fault_class.startswith(("numeric.", "user."))

    @pytest.mark.parametrize("minute", ["00", "20"])
    def test_a_preemption_of_a_job_with_nan_that_ran_on_is_why(self, judged, minute):
        """A loss of NaN ends no job by itself, however often it is printed."""
        lines = (
            "2026-03-01 10:00:00 node-2 [rank9]: step 5 loss nan",
            "2026-03-01 10:00:10 node-2 [rank9]: step 6 loss nan",
            f"2026-03-01 10:{minute}:25 node-2 agent: instance node-2 was preempted",
            f"2026-03-01 10:{minute}:27 node-1 [rank1]: {PEER}",
        )
        assert judged(*lines)[0].fault_class == "scheduler.preempted"


class TestGuesses:
    KERNEL = (
        "Mar 01 10:00:00 node-4 kernel: Memory failure: 0x8a1f: Sending SIGBUS to python3:{} due to hardware memory",
        "Mar 01 10:00:00 node-4 kernel: MCE: Killing python3:{} due to hardware memory corruption fault at 7f00aa00",
    )
    GUESS = (
        "2026-03-01 10:00:01 node-4 [rank2]: RuntimeError: DataLoader worker (pid 5511) is killed by signal: Bus "
        "error. It is possible that dataloader's workers are out of shared memory."
    )

    @pytest.mark.parametrize("kernel", KERNEL)
    def test_the_kernel_knows_better_why_a_process_got_a_signal(self, judged, kernel):
        """The library only guesses at shared memory, whose lack the kernel does not tell of this process."""
        assert first(judged(kernel.format(5511), self.GUESS)) == ("node.memory_ecc", "node-4")

    def test_the_guess_stands_alone(self, judged):
        """Without the kernel's word it is the best there is."""
        assert judged(self.GUESS)[0].fault_class == "container.shm_small"


class TestTogether:
    POWER = "Mar 01 09:59:50 node-4 ipmievd: Power Supply sensor PS Redundancy - Redundancy Lost Asserted"

    def lost(self, *buses: str) -> list[str]:
        """Lose GPUs of one host in one second."""
        return [f"Mar 01 10:00:00 node-4 {XID.format(bus)}" for bus in buses]

    def test_several_chips_lost_at_once_are_the_hosts_fault(self, judged):
        """They share a board, switches and power."""
        (found,) = judged(*self.lost("19", "3b", "4c"))
        assert (found.culprit.kind, found.culprit.name, found.remedy) == ("host", "node-4", "cordon_replace")

    def test_with_a_word_of_power_before_it_is_power(self, judged):
        """The supply's redundancy was lost just before."""
        assert first(judged(self.POWER, *self.lost("19", "3b"))) == ("node.power", "node-4")

    def test_one_chip_lost_is_that_chip(self, judged):
        """With or without a word of power, one chip is one chip."""
        assert judged(*self.lost("19"))[0].culprit.kind == "chip"


class TestCancelled:
    @pytest.mark.parametrize("end", ["Exited with exit code 1", "Exited with exit code 3"])
    def test_tasks_that_had_ended_by_themselves_are_not_cancelled(self, judged, end):
        """The step was cancelled for them; why they ended nobody tells."""
        lines = (
            f"srun: error: node-1: tasks 0-3: {end}",
            "slurmstepd: error: *** STEP 3.0 ON node-1 CANCELLED AT 2026-02-14T10:00:40 ***",
        )
        assert judged(*lines)[0].fault_class == "unknown"

    def test_tasks_that_ended_by_the_signal_are(self, judged):
        """Who cancels sends signals first."""
        lines = (
            "slurmstepd: error: *** STEP 3.0 ON node-1 CANCELLED AT 2026-02-14T10:00:40 ***",
            "srun: error: node-1: task 0: Terminated",
        )
        assert judged(*lines)[0].fault_class == "scheduler.cancelled"


class TestSilentEnd:
    @pytest.mark.parametrize(
        "text",
        [
            "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring collectives.",
            "[PG ID 0 PG GUID 0 Rank 1] Heartbeat monitor timed out! Process will be terminated after dumping.",
        ],
    )
    def test_a_job_ended_by_its_own_watch_is_an_incident(self, judged, text):
        """It died, so that it is unknown why, with what to ask for next."""
        (found,) = judged("[rank1]: step 10 loss 2.0", f"[rank1]:[F1130 08:40:00.1 ProcessGroupNCCL.cpp:1557] {text}")
        assert found.fault_class == "unknown"
        assert "logs of all ranks" in found.advice


class TestPowerOfAMachine:
    GIVEN_UP = "2026-03-01 10:05:00 slurmctld: error: Nodes n{:02d} not responding, setting DOWN"

    @pytest.mark.parametrize(
        "told",
        [
            "2026-03-01T10:00:05Z n17-ipmi sel: Power Unit #0x01 | Power off/down | Asserted",
            "2026-03-01T10:00:05Z bmc-n17 SEL: Power Supply #0x61 | Power Supply AC lost | Asserted",
            "2026-03-01T10:00:05Z idrac-n17 SEL: Power supply 2 input lost",
        ],
    )
    def test_lost_power_is_why_a_scheduler_gave_a_machine_up(self, judged, told: str):
        """A management controller is named for its machine, and knows more than who waits for it."""
        found = judged(told, self.GIVEN_UP.format(17))
        assert first(found) == ("node.power", "n17")

    def test_a_supply_of_another_machine_is_not(self, judged):
        """Machines have a supply too many, so that one lost elsewhere explains nothing."""
        told = "2026-03-01T10:00:05Z bmc-n04 SEL: Power Supply #0x61 | Power Supply AC lost | Asserted"
        assert first(judged(told, self.GIVEN_UP.format(17))) == ("scheduler.node_failure", "n17")

    def test_power_that_came_back_is_no_fault(self, judged):
        """The word of its end is not that of its begin."""
        assert judged("2026-03-01T10:00:05Z bmc-n17 SEL: Power Unit #0x01 | Power off/down | Deasserted") == ()


class TestNamesOfOneChip:
    def test_two_ways_to_write_an_address_are_one_chip(self, judged):
        """With and without function, short and long domain: one GPU was lost, not several."""
        xid = "Mar  1 10:00:00 node-2 kernel: NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus."
        again = "Mar  1 10:00:01 node-2 kernel: NVRM: GPU 0000:9A:00.0: GPU has fallen off the bus."
        assert first(judged(xid, again)) == ("gpu.lost", "node-2 chip 0000:9a:00")
