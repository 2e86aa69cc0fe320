"""A fleet is never planned slower than a part of it, and what can't be joined is left apart."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.fleet import LongLink
from argosy.plan.planner import plan_job
from argosy.plan.search.offers import prefixes, sizes_of


def step_ms(build: Any, job: Any, classes: list[Any], links: tuple[LongLink, ...] = ()) -> float:
    """Give the step of the fastest plan."""
    prediction = plan_job(job, build.shape(job.model), classes, links)[0].prediction
    assert prediction is not None
    return prediction.step_ms


def slow(build: Any, name: str, **more: Any) -> Any:
    """Build a class whose arithmetic takes the time."""
    return build.chip_class(name, tflops=0.002, **more)


class TestParts:
    def test_one_node_of_many(self, build: Any) -> None:
        """Where networks are slow a class of many nodes is as fast as one of them, over its scale-up link."""
        job = build.job(global_batch_size=3)
        one, many = (slow(build, "north/fast", nodes=n, nic_gbps=0.001) for n in (1, 5))
        assert step_ms(build, job, [many]) <= step_ms(build, job, [one]) * (1 + 1e-9)

    @pytest.mark.parametrize("gbps", [1e-6, 10.0])
    def test_never_slower_than_a_class(self, build: Any, gbps: float) -> None:
        """However slow the long link is, two sites are no slower than either alone; odd batches too."""
        job = build.job(global_batch_size=3)
        north, south = slow(build, "north/fast", nodes=4), slow(build, "south/odd", chips_per_node=5, nic_gbps=0.01)
        both = step_ms(build, job, [north, south], (build.link(gbps=gbps),))
        assert both <= min(step_ms(build, job, [one]) for one in (north, south)) * (1 + 1e-9)

    def test_prefixes(self, build: Any) -> None:
        """Half of the nodes and a single one are tried, of one site at a time."""
        north, south = (build.chip_class(f"{site}/c", nodes=5) for site in ("north", "south"))
        assert [sizes_of(some) for some in prefixes(build.parts(north))] == [(("north/c", 4),), (("north/c", 2),)]
        assert prefixes(build.parts(replace(north, nodes=1))) == []
        assert prefixes(build.parts(north, south)) == []


class TestSizes:
    def test_larger(self, build: Any) -> None:
        """Of short sequences large micro-batches are tried, and the bound holds for any size that a job may fix."""
        shape, node = build.shape("gpt2"), [build.chip_class(tflops=100.0, memory_gb=80.0)]
        told = []
        for size in (None, 3, 8, 96):
            job = build.job("gpt2", global_batch_size=96, microbatch_size=size, precision="bf16")
            prediction = plan_job(job, shape, node, ())[0].prediction
            assert prediction is not None
            told.append(prediction)
        least_ms = told[0].step_ms / (1 + told[0].gap)
        assert all(least_ms <= one.step_ms for one in told)
        assert told[0].step_ms < told[1].step_ms


class TestLinks:
    @pytest.mark.parametrize("pairs", [("ab", "bc"), ("ab", "bc", "cd", "da"), ("ab",)])
    def test_not_all_linked(self, build: Any, pairs: tuple[str, ...]) -> None:
        """Sites that are not all linked are planned with the links there are."""
        links = tuple(LongLink(between=(pair[0], pair[1]), km=1.0, gbps=10.0) for pair in pairs)
        classes = [slow(build, f"{site}/c") for site in sorted({site for pair in pairs for site in pair} | {"e"})][:4]
        assert step_ms(build, build.job(), classes, links) <= step_ms(build, build.job(), classes[:1])


class TestImpossibleClasses:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"nodes": -1}, r"north/fast: nodes is -1; give 1 or more"),
            ({"chips_per_node": 0}, r"north/fast: chips_per_node is 0"),
            ({"nic_gbps": float("nan")}, r"north/fast: nic_gbps is nan; give 0 or more"),
        ],
    )
    def test_figures(self, build: Any, change: dict[str, Any], said: str) -> None:
        """Figures that no fleet has are refused, not searched with."""
        with pytest.raises(BadInputError, match=said):
            step_ms(build, build.job(), [slow(build, "north/fast", **change)])

    def test_same_name(self, build: Any) -> None:
        """Two classes of one name are refused."""
        with pytest.raises(BadInputError, match=r"several classes are called north/fast"):
            step_ms(build, build.job(), [slow(build, "north/fast")] * 2)

    @pytest.mark.parametrize("tflops", [0.0, 1e-300])
    def test_no_peak(self, build: Any, tflops: float) -> None:
        """A peak of next to nothing is named with its value."""
        with pytest.raises(NeverFitsError, match=rf"fast has a fp32 peak of {tflops:g} TFLOP/s; correct it"):
            step_ms(build, build.job(), [build.chip_class(tflops=tflops)])
