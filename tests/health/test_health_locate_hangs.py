"""Real jobs of gloo ranks that hang: the right rank is named from what they leave."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
AT_ONCE = 5
"""Jobs mostly wait, for torch to load and for what will never come, so that several share a core."""


@pytest.fixture(scope="module")
def folder_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Run the jobs of all faults that were asked for side by side; gives what waits for one and names its folder."""
    hangs = request.getfixturevalue("benchmark")("hangs")
    top = tmp_path_factory.mktemp("hangs")
    asked = [item.callspec.params["fault"] for item in request.session.items if "fault" in _parameters(item)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The slow rank is known by its times, so that it should begin before the machine is full.
        order = sorted(set(asked) & set(FAULTS), key=lambda fault: (fault != "slow", fault))
        jobs = {fault: pool.submit(hangs.make, fault, top / fault) for fault in order}

        def finished(fault: str) -> Path:
            jobs[fault].result()
            return top / fault

        yield finished


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") and item.path == Path(__file__) else {}


@pytest.mark.slow
class TestRealHangs:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_the_right_rank_is_named(self, benchmark, folder_of, fault: str):
        """Each fault, made by real processes, is named with its rank and nothing else."""
        hangs, job = benchmark("hangs"), benchmark("hang_job")
        said = hangs.judge(folder_of(fault))["with_stacks"]
        assert [(each.fault_class, each.culprit.name) for each in said] in [[one] for one in job.FAULTS[fault].wanted]

    def test_every_fault_is_tried(self, benchmark):
        """No fault of the benchmark is left out here."""
        assert sorted(benchmark("hang_job").FAULTS) == sorted(FAULTS)
