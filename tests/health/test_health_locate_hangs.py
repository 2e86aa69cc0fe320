"""Real jobs of gloo ranks that hang: the right rank is named from what they leave."""

from pathlib import Path

import pytest

FAULTS = (
    "checkpoint_stuck",
    "data_stuck",
    "dies",
    "holds_lock",
    "larger_size",
    "leaves_early",
    "other_operation",
    "skips",
    "slow",
    "smaller_size",
    "stopped_before",
    "stopped_inside",
    "two_groups",
)


@pytest.mark.slow
class TestRealHangs:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_the_right_rank_is_named(self, benchmark, tmp_path: Path, fault: str):
        """Each fault, made by real processes, is named with its rank and nothing else."""
        hangs, job = benchmark("hangs"), benchmark("hang_job")
        hangs.make(fault, tmp_path / fault)
        said = hangs.judge(tmp_path / fault)["with_stacks"]
        assert [(each.fault_class, each.culprit.name) for each in said] in [[one] for one in job.FAULTS[fault].wanted]

    def test_every_fault_is_tried(self, benchmark):
        """No fault of the benchmark is left out here."""
        assert sorted(benchmark("hang_job").FAULTS) == sorted(FAULTS)
