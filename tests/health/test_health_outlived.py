"""What a job lived through is not what ended it."""

import pytest

from argosy.health.steps import step_before_last, step_of

OOM = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
BAD = "[rank0]: OSError: [Errno 5] Input/output error: '/data/a'"
XID = "2026-03-0{day} {at} node-1 kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid=1, GPU has fallen off the bus."


def steps(first: int, last: int) -> list[str]:
    """Print steps."""
    return [f"[rank0]: step {number} loss 2.0" for number in range(first, last)]


def named(incidents) -> list[str]:
    """Give the classes of incidents."""
    return [each.fault_class for each in incidents]


class TestOutlived:
    def test_a_caught_error_gives_way_to_the_last_one(self, judged):
        """Of two errors the one with steps behind it is not the cause."""
        assert named(judged(*steps(0, 3), BAD, *steps(3, 9), OOM)) == ["gpu.oom"]

    def test_a_job_that_went_on_has_no_incident(self, judged):
        """An error that was caught is none where nothing failed after it."""
        assert judged(*steps(0, 3), BAD, *steps(3, 9)) == ()

    def test_two_steps_do_not_disprove(self, judged):
        """What other ranks had begun may still end."""
        assert named(judged(*steps(0, 3), OOM, *steps(3, 5))) == ["gpu.oom"]

    def test_a_restart_is_told_where_nothing_else_broke(self, judged):
        """A fault that cost the job an attempt is told, though it went on."""
        ended = "ERROR: failed (exitcode: 1) local_rank: 0 (pid: 1) of binary: python"
        assert named(judged(OOM, ended, *steps(0, 9))) == ["gpu.oom"]

    def test_what_slows_a_job_is_not_disproved(self, judged):
        """A NaN loss lets the job step on."""
        assert named(judged("[rank0]: iter 12 loss=nan", *steps(13, 19))) == ["numeric.nan_loss"]

    @pytest.mark.parametrize(("day", "at", "wanted"), [(1, "03:00:00", "user.exception"), (4, "13:59:58", "gpu.lost")])
    def test_a_kernels_old_word_is_not_the_cause(self, judged, day: int, at: str, wanted: str):
        """What a kernel said days before the first process failed is not why; what it said just before is."""
        lines = [XID.format(day=day, at=at), "2026-03-04 14:00:00 [rank3]: KeyError: 'labels'"]
        assert named(judged(*lines))[0] == wanted


class TestFewLinesOfManySteps:
    @pytest.mark.parametrize(("last", "wanted"), [(1100, ["gpu.oom"]), (922, ["gpu.oom"]), (921, ["storage.io_error"])])
    def test_steps_count_by_their_numbers(self, judged, last: int, wanted: list[str]):
        """Two lines that are many steps apart say as much as many lines."""
        told = [f"[rank0]: step {number} loss 2.0" for number in (880, 920)]
        after = f"[rank0]: step {last} loss 2.0"
        assert named(judged(told[0], BAD, told[1], after, OOM))[:1] == wanted

    def test_a_node_lost_before_many_steps_is_past(self, judged):
        """The job was queued again and went on; what ended it came later."""
        lines = ("srun: error: Node failure on node-5", *steps(850, 860), "[rank0]: KeyError: 'labels'")
        assert named(judged(*lines)) == ["user.exception"]


class TestThreads:
    TIMEOUT = (
        "[rank{0}]: [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, "
        "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600100 milliseconds before timing out."
    )
    ENDED = (
        "[rank2]: Exception in thread Thread-4 (prefetch):",
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "prefetch.py", line 57, in prefetch',
        "[rank2]: {}",
    )

    @pytest.mark.parametrize("error", ["KeyError: 'labels'", "OSError: [Errno 5] Input/output error: '/data/a'"])
    def test_steps_after_it_disprove_nothing(self, judged, error: str):
        """The rank lived on its buffer until that was empty, and then the others waited for it."""
        ended = [line.format(error) for line in self.ENDED]
        (found,) = judged(*ended, *steps(3, 9), *(self.TIMEOUT.format(rank) for rank in (0, 1, 3)))
        assert found.fault_class in ("user.exception", "storage.io_error")
        assert "rank 2" in found.culprit.name

    def test_a_rank_that_waits_with_the_others_did_not_need_the_thread(self, judged):
        """It came to the collective like the rest."""
        ended = [line.format("KeyError: 'labels'") for line in self.ENDED]
        found = judged(*ended, *steps(3, 9), *(self.TIMEOUT.format(rank) for rank in (0, 1, 2)))
        assert "user.exception" not in named(found)

    def test_where_nobody_waits_it_is_past(self, judged):
        """A job that goes on without it has no incident."""
        assert judged(*(line.format("KeyError: 'labels'") for line in self.ENDED), *steps(3, 9)) == ()


class TestPorts:
    DOWN = "Nov 20 10:01:00 node-13 kernel: mlx5_core 0000:5e:00.0 ib0: Link {}"
    UP = "Nov 20 10:01:{} node-13 kernel: mlx5_core 0000:5e:00.0 {}: Link up"
    KILLED = "Nov 20 10:12:33 node-12 kernel: Out of memory: Killed process 22012 (python) total-vm:91022304kB"
    WORKER = (
        "Nov 20 10:12:34 node-12 train[1]: RuntimeError: DataLoader worker (pid 22012) is killed by signal: Killed."
    )
    HUNG = (
        "Nov 20 10:11:20 node-12 train[1]: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600100 milliseconds before timing out."
    )

    def test_a_port_that_came_up_soon_is_past(self, judged):
        """Nothing failed for minutes after, so its short absence did no harm."""
        lines = (self.DOWN.format("down"), self.UP.format("09", "ib0"), self.KILLED, self.WORKER)
        assert named(judged(*lines)) == ["host.oom"]

    def test_another_port_closes_nothing(self, judged):
        """The one that went down stayed so."""
        lines = (self.DOWN.format("down"), self.UP.format("09", "ib1"), self.HUNG)
        assert named(judged(*lines)) == ["network.link_flap"]

    def test_a_wait_that_began_at_the_flap_is_its_effect(self, judged):
        """A time-out speaks of when the wait began, however late it is printed."""
        lines = (self.DOWN.format("down"), self.UP.format("09", "ib0"), self.HUNG)
        assert named(judged(*lines)) == ["network.link_flap"]


class TestSteps:
    @pytest.mark.parametrize(
        ("text", "step"),
        [("iteration 7/ 100 | loss", "7"), ('{"step": 12, "loss": 2}', "12"), ("stepped over 3", ""), ("epoch 3", "")],
    )
    def test_steps_are_read(self, text: str, step: str):
        """Frameworks write steps in several ways."""
        assert step_of(text) == step

    def test_the_last_but_two_is_found(self):
        """The line of the last step but two, with the time above it; steps in trouble are none."""
        found = step_before_last(b"2026-11-30 14:00:00 x\nstep 1\nstep 2\nstep 2\nstep 3\nretry of step 4\n")
        assert found is not None
        assert (found.step, found.lines_after, found.stamp is not None) == ("1", 5, True)

    def test_few_steps_tell_nothing(self):
        """Two different steps are too few."""
        assert step_before_last(b"step 1\nstep 2\nstep 2\n") is None


class TestEpisodes:
    def test_symptoms_of_another_day_are_another_incident(self, judged):
        """What fails two days after a fault has nothing to do with it, though nothing says why it failed."""
        first = "[2026-03-01 10:00:00] [rank0]: CUDA out of memory. Tried to allocate 2.00 GiB"
        second = "[2026-03-03 10:00:00] [rank1]: ncclRemoteError: A call failed"
        assert named(judged(first, second)) == ["gpu.oom", "unknown"]

    def test_a_long_wait_belongs_to_its_cause(self, judged):
        """Who gave up after three hours began to wait when the other rank failed."""
        cause = "[2026-03-01 10:00:00] [rank0]: CUDA out of memory. Tried to allocate 2.00 GiB"
        wait = (
            "[2026-03-01 13:00:01] [rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
            "OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=10800000) ran for 10800017 milliseconds."
        )
        assert named(judged(cause, wait)) == ["gpu.oom"]


class TestGranted:
    WAITS = (
        "2026-03-01T00:00:01Z Warning  FailedScheduling  pod/a-{}  0/9 nodes are available: 9 Insufficient amd.com/gpu."
    )
    PLACED = "2026-03-01T00:04:10Z Normal   Scheduled  pod/a-{}  Successfully assigned ml/a-{} to n17"

    def test_a_pod_that_was_placed_later_is_no_fault(self, judged):
        """Waiting for a place is how gangs begin."""
        assert judged(self.WAITS.format(1), self.PLACED.format(1, 1)) == ()

    def test_another_pods_place_does_not_help(self, judged):
        """The one that still waits holds the job up."""
        assert named(judged(self.WAITS.format(1), self.PLACED.format(0, 0))) == ["scheduler.unschedulable"]

    def test_a_pod_that_lost_its_place_again_counts(self, judged):
        """Only what comes after the last request grants it."""
        again = self.WAITS.format(1).replace("00:00:01", "07:00:00")
        assert named(judged(self.WAITS.format(1), self.PLACED.format(1, 1), again)) == ["scheduler.unschedulable"]

    def test_an_image_that_came_at_last_is_no_fault(self, judged):
        """A registry may fail once."""
        lines = (
            'Warning  Failed  pod/a-1  Failed to pull image "reg/a:3": dial tcp 10.1.1.1:443: i/o timeout',
            "Warning  Failed  pod/a-1  Error: ErrImagePull",
        )
        assert named(judged(*lines)) == ["container.image"]
        assert judged(*lines, 'Normal  Pulled  pod/a-1  Successfully pulled image "reg/a:3" in 4s') == ()
