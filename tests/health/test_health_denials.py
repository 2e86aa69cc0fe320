"""Lines that deny the fault they name: counts of none, `no`, `none of` and `not` beside it, however far."""

import pytest

from argosy.health.denials import denied

OOM = "killed due to memory pressure (OOM)"


class TestDenied:
    @pytest.mark.parametrize(
        "text",
        [
            f"0 Workers (tasks / actors) {OOM}, 0 Workers crashed due to other reasons at node 4f",
            f"no worker of this job was {OOM}",
            f"none of the 64 ranks {OOM}",
            f"health check passed without any process {OOM}",
            f"tasks were not {OOM}",
            f"summary: {OOM}: 0, restarts: 2",
            "rank 3 is slow: no; next check in 60 s",
            "evictions: pod evicted = none",
            "node sweep: 0 GPUs with Xid 79, 0 links down",
            "no nodes with NVLink 4 down",
            "check of rank 0 straggling: done; 0 stragglers",
        ],
    )
    def test_a_denied_fault_is_none(self, judged, text):
        """Whatever stands between the count, or the word, and the fault within its clause."""
        assert judged(text, "step 1 loss 2.0") == ()

    @pytest.mark.parametrize(
        ("text", "fault_class"),
        [
            ("OSError: [Errno 28] No space left on device: '/ckpt/a'", "storage.disk_full"),
            ("NCCL WARN Bootstrap : no socket interface found", "config.interface"),
            ("no heartbeat from node-3: Node failure on node-3", "scheduler.node_failure"),
            (f"0 tasks are left since 3 Workers {OOM}", "host.oom"),
            ("training is not possible, CUDA out of memory. Tried to allocate 2 GiB", "gpu.oom"),
            ("rank 0 was OOM-killed", "host.oom"),
            (f"2 Workers (tasks / actors) {OOM}, 0 Workers crashed", "host.oom"),
        ],
    )
    def test_a_fault_that_is_said_by_no_stays(self, judged, text, fault_class):
        """`No` within the fault's own words, in another clause, or before a reason denies nothing."""
        assert judged(text)[0].fault_class == fault_class

    def test_it_looks_beside_the_match_only(self):
        """A count with a unit is no count of the fault."""
        text = "OUT_OF_MEMORY: 0 MiB free"
        assert not denied(text, 0, len("OUT_OF_MEMORY"))


class TestStragglers:
    @pytest.mark.parametrize(
        "text",
        [
            "[rank0] INFO straggler report: all GPUs above threshold",
            "[rank3]: straggler detection: scores 0.98 0.97 1.00",
            "rank 2 straggler report: no GPUs found with performance below threshold; 0 stragglers",
        ],
    )
    def test_a_report_of_stragglers_names_none_by_itself(self, judged, text):
        """It is printed regularly by healthy runs."""
        assert judged(text) == ()

    @pytest.mark.parametrize(
        "text", ["rank 14 is a straggler: 0.61 of the median", "rank 3 is 2.4x slower than its peers"]
    )
    def test_a_named_straggler_is_told(self, judged, text):
        """One that the report names is the slow one."""
        assert judged(text)[0].fault_class == "process.slow_rank"
