"""Location on simulated jobs: any fault at any place is named, and 100,000 ranks are quick."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.health.locate import locate


class TestSimulated:
    @pytest.mark.slow
    @settings(max_examples=60)
    @given(data=st.data())
    def test_a_fault_at_any_place_is_named(self, benchmark_locate, data):
        """In a job of any shape, each kind of fault leads to its culprit and to nothing else."""
        locating, job_of = benchmark_locate
        fault = data.draw(st.sampled_from(locating.FAULTS))
        shape = data.draw(st.sampled_from([(8, 2, 4), (2, 4, 8), (4, 3, 6), (1, 4, 8), (8, 1, 8)]))
        if any(word in fault.name for word in ("slow link", "mismatch", "inside", "and dead node", "two")):
            shape = (8, 2, 8)  # groups that can vote, and no host in two replicas
        job = job_of.Job(**dict(zip(("tp", "pp", "dp"), shape, strict=True)))
        (traces, liveness), wanted = fault.make(job, random.Random(data.draw(st.integers(0, 10_000))))
        assert locating.answers(locate(traces, liveness)) == wanted

    @pytest.mark.slow
    def test_every_fault_of_a_thousand_ranks_is_named(self, benchmark_locate):
        """Each kind of fault in 1,024 ranks at several places."""
        locating, _ = benchmark_locate
        rows = [locating.measure(fault, 1_024, seed) for fault in locating.FAULTS for seed in range(100, 103)]
        assert [row for row in rows if not row["right"]] == []

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["hang and dead node", "slow link"])
    def test_a_hundred_thousand_ranks(self, benchmark_locate, name):
        """A job of 100,000 ranks is located, right."""
        locating, _ = benchmark_locate
        fault = next(each for each in locating.FAULTS if each.name == name)
        assert locating.measure(fault, 100_000, 3)["right"]


@pytest.fixture(scope="session")
def benchmark_locate(benchmark):
    """Give the benchmark of location and its simulated job."""
    return benchmark("locate"), benchmark("locate_job")
