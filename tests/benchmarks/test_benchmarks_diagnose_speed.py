"""The benchmark of how fast logs are read."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

# Enough for a block to be over; more would only take longer.
MEGABYTES = 3


@pytest.mark.slow
class TestDiagnoseSpeed:
    @pytest.mark.parametrize("kind", ["training", "nccl", "kernel", "warnings", "flood", "line", "training.gz"])
    def test_the_fault_is_found_in_every_kind_of_log(
        self, benchmark: Callable[[str], ModuleType], tmp_path: Path, kind: str
    ) -> None:
        """Whatever surrounds it, the one fault is named, and all of the log was read."""
        row = benchmark("diagnose_speed").row(kind, MEGABYTES, tmp_path)
        assert row["found"]
        assert row["megabytes"] >= MEGABYTES
        assert row["peak_mb"] < 400
