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
