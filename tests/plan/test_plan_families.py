"""Which schedules and degrees the search chooses between, each where it pays."""

from typing import Any

import pytest

from argosy.contracts.plan import Plan
from argosy.plan.planner import plan_job
from argosy.plan.timing.check import check_plan


def plan(build: Any, model: str, batch: int, memory_gb: float, nodes: int, **more: Any) -> Plan:
    """Plan a job on one class of nodes of eight chips."""
    tflops = more.pop("tflops", 75.0)
    gbps = more.pop("nic_gbps", 1600.0)
    chips = build.chip_class(tflops=tflops, memory_gb=memory_gb, nodes=nodes, chips_per_node=8, nic_gbps=gbps)
    length = more.pop("sequence_length", 4096)
    precision = more.pop("precision", "bf16")
    job = build.job(model, global_batch_size=batch, sequence_length=length, precision=precision)
    found = plan_job(job, build.shape(model), [chips], (), **more)[0]
    check_plan(found)
    return found


@pytest.mark.slow
class TestChosen:
    def test_few_microbatches(self, build: Any) -> None:
        """A pipeline with few micro-batches puts weights' gradients into its gaps, in plans for the trainer too."""
        small = {"tflops": 0.0025, "sequence_length": 64, "precision": "fp32"}
        for runnable in (False, True):
            found = plan(build, "demo", 16, 0.02, 4, runnable=runnable, **small)
            assert found.schedule == "zero-bubble"
            assert all(r.microbatches % (r.microbatches // len(r.stages)) == 0 for r in found.replicas)

    def test_weights_sharded_without_pipeline(self, build: Any) -> None:
        """Where gathering weights hides behind arithmetic, sharding them spares the pipeline."""
        found = plan(build, "demo", 32, 0.007, 8, tflops=0.0025, sequence_length=64)
        assert found.zero_stage == 3
        assert all(len(replica.stages) == 1 for replica in found.replicas)

    def test_experts_spread(self, build: Any) -> None:
        """A mixture of experts is spread over chips that take micro-batches of their own."""
        found = plan(build, "mixtral-8x7b", 256, 80.0, 16)
        assert found.replicas[0].stages[0].ep > 1
        assert sum(replica.sequences for replica in found.replicas) == 256

    def test_recompute_in_part(self, build: Any) -> None:
        """A stage recomputes only as many of its layers as must be."""
        found = plan(build, "llama-3-8b", 1024, 24.0, 64, sequence_length=8192)
        counts = [stage.recompute_layers for stage in found.replicas[0].stages if stage.recompute != "none"]
        assert any(count is not None for count in counts)
