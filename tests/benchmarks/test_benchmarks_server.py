"""The benchmark of the service: its crowd of simulated agents, against a real server."""

from argparse import Namespace
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def options(**more: Any) -> Namespace:
    """Give a small load."""
    usual = {"agents": 8, "period": 1, "hold": 0, "jobs": 2, "job_seconds": 1, "seconds": 4, "idle_seconds": 1}
    return Namespace(**usual | more)


@pytest.mark.slow
class TestCrowd:
    def test_agents_join_talk_and_do_what_they_are_told(self, benchmark: Callable[[str], ModuleType]) -> None:
        """Every agent talks each period, jobs start and end meanwhile, and nothing fails."""
        found = benchmark("server").measure_load(options())
        assert found["failures"] == []
        assert found["idle_heartbeats_per_second"] >= 4
        assert found["jobs"].get("ended", 0) >= 1
        assert found["server_cpu_us_a_heartbeat"] > 0
        assert set(found["read_cpu_ms"]) == set(benchmark("server").READS)

    def test_agents_whose_answers_are_held_back_talk_no_more_often(
        self, benchmark: Callable[[str], ModuleType]
    ) -> None:
        """The next talk follows the answer, which the server keeps for as long as it may while there is no order."""
        found = benchmark("server").measure_load(options(hold=1, jobs=1))
        assert found["failures"] == []
        assert 0 < found["idle_heartbeats_per_second"] <= 2 * found["agents"]

    def test_a_bare_server_is_measured_in_the_same_way(self, benchmark: Callable[[str], ModuleType]) -> None:
        """Without joining."""
        found = benchmark("server").measure_bare(options())
        assert found["heartbeats_per_second"] >= 4
        assert found["heartbeat_ms_p99"] >= 0
