"""Questions that have no answer, or an odd one: what the planner says to them."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.job import ChipsSpec, Job
from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job


def plan(build: Any, job: Job, *classes: Any, gbps: float = 10.0, **shape: Any) -> Plan:
    """Plan a job on classes of north and south."""
    return plan_job(job, build.shape(job.model, **shape), classes, (build.link(gbps=gbps),))[0]


def slow(build: Any, name: str = "north/fast", **more: Any) -> Any:
    """Build a class whose arithmetic takes the time."""
    return build.chip_class(name, tflops=0.002, **more)


class TestRefused:
    def test_no_network(self, build: Any) -> None:
        """Nodes without a network can't work together, and that is said; one alone may."""
        with pytest.raises(NeverFitsError, match=r"north/fast has 2 nodes and no network; give nics in the fleet file"):
            plan(build, build.job(), slow(build, nic_gbps=0.0))
        assert plan(build, build.job(), slow(build, nic_gbps=0.0, nodes=1)).world_size == 2

    def test_no_bandwidth_between_sites(self, build: Any) -> None:
        """A long link that carries nothing joins nothing."""
        found = plan(build, build.job(), slow(build), slow(build, "south/slow"), gbps=0.0)
        assert len({stage.chip_class for replica in found.replicas for stage in replica.stages}) == 1

    @pytest.mark.parametrize(("batch", "size", "near"), [(3, 2, 1), (4, 8, 4)])
    def test_microbatch_does_not_go_into_batch(self, build: Any, batch: int, size: int, near: int) -> None:
        """Micro-batches that leave a rest are refused with the nearest size that does not."""
        job = build.job(global_batch_size=batch, microbatch_size=size)
        with pytest.raises(
            BadInputError, match=rf"{size} does not go into train\.global_batch_size {batch}; {near} does"
        ):
            plan(build, job, slow(build))

    def test_precision(self, build: Any) -> None:
        """A precision that nothing is known of is refused with those that are priced, whatever peaks chips have."""
        with pytest.raises(BadInputError, match=r"precision 'fp8': plans are priced in fp32 and bf16 alone"):
            plan(build, build.job(precision="fp8"), slow(build))

    def test_more_chips_than_free(self, build: Any) -> None:
        """A job that asks for more chips than are free is told how many there are."""
        job = replace(build.job(), chips=ChipsSpec(minimum=99))
        with pytest.raises(NeverFitsError, match=r"chips\.min asks for 99 chips; the fleet has 4"):
            plan(build, job, slow(build))

    def test_larger_than_the_fleet(self, build: Any) -> None:
        """A model that does not fit is refused with what would hold it."""
        job = build.job("llama-3-8b", sequence_length=8192)
        with pytest.raises(NeverFitsError, match=r"llama-3-8b does not fit: .*Smallest fleet that fits: \d+ fast"):
            plan(build, job, slow(build, memory_gb=40.0))


class TestOdd:
    def test_one_layer(self, build: Any) -> None:
        """A model of one layer has no pipeline."""
        found = plan(build, build.job(), slow(build), num_layers=1)
        assert all(len(replica.stages) == 1 for replica in found.replicas)

    def test_one_sequence(self, build: Any) -> None:
        """A batch smaller than the replicas there could be leaves chips idle."""
        found = plan(build, build.job(global_batch_size=1), slow(build), slow(build, "south/slow"))
        assert [replica.sequences for replica in found.replicas] == [1]

    def test_all_chips_for_one_sequence(self, build: Any) -> None:
        """Who must use chips that don't help gets a pipeline through them."""
        job = replace(build.job(global_batch_size=1), chips=ChipsSpec(minimum=4))
        assert plan(build, job, slow(build)).world_size == 4
