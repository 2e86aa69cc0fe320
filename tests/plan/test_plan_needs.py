"""What memory a model needs, the fewest chips that hold it, and the numbers of chips that are tried for a price."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import NeverFitsError
from argosy.contracts.job import ChipsSpec, Objective
from argosy.plan.planner import plan_job
from argosy.plan.search.counts import fewer_chips, ladder_counts
from argosy.plan.search.needs import least_gb, smallest_chips


def small(build: Any, memory_gb: float, nodes: int = 4, name: str = "north/fast", **more: object) -> Any:
    """Build a class whose few chips lack memory."""
    return build.chip_class(name, tflops=0.001, memory_gb=memory_gb, nodes=nodes, **more)


class TestSmallest:
    @pytest.mark.slow
    @settings(max_examples=12, deadline=None)
    @given(
        batch=st.sampled_from((1, 3, 6, 7, 8, 12)),
        memory_mb=st.sampled_from((1.3, 1.6, 2.0, 2.6, 4.0)),
        node_chips=st.sampled_from((1, 2, 3, 4)),
    )
    def test_no_fewer_do(self, build: Any, batch: int, memory_mb: float, node_chips: int) -> None:
        """One node after the other, the first number of nodes that has a plan is the one that is told."""
        chips = small(build, memory_mb / 1e3, chips_per_node=node_chips)
        search = build.search(build.setting("tiny"), batch=batch)
        told = smallest_chips(search, chips, batch)
        counts = range(1, 25 if told is None else told // node_chips + 1)
        found = (n for n in counts if search.estimates(build.parts(replace(chips, nodes=n)), batch, 1))
        assert told == next((n * node_chips for n in found), None)

    def test_what_no_number_holds(self, build: Any) -> None:
        """Where one layer is too large there is no such number."""
        assert smallest_chips(build.search(build.setting("tiny")), small(build, 0.0001), 8) is None


class TestNeed:
    def test_more_nodes_need_no_more(self, build: Any) -> None:
        """What the fullest rank needs falls, or stays, with every node more."""
        search = build.search(build.setting("tiny"))
        needs = [least_gb(search, build.parts(small(build, 1.0, nodes)), 8) for nodes in (1, 2, 3, 4, 6, 8)]
        assert needs == sorted(needs, reverse=True)

    def test_pipelines_through_several_classes_need_less(self, build: Any) -> None:
        """Of chips in two classes that hold the model neither alone nor together, the need is told of both together."""
        search = build.search(build.setting("tiny"))
        parts = build.parts(small(build, 0.001, 1), small(build, 0.001, 1, "north/other"))
        alone = [least_gb(search, [part], 8) for part in parts]
        together = least_gb(search, parts, 8)
        assert together < min(alone)
        with pytest.raises(NeverFitsError, match=rf"the best split needs {together:.4g} GB .*fast has .*, other has"):
            plan_job(build.job(), build.shape(), [part.chip_class for part in parts], [])

    def test_what_the_job_fixes_is_told(self, build: Any) -> None:
        """A job that fixes recompute and large micro-batches is told how much less would do."""
        job = build.job(recompute="none", microbatch_size=4, sequence_length=256)
        with pytest.raises(NeverFitsError, match=r"With train.recompute: full and train.microbatch_size: 1 it needs"):
            plan_job(job, build.shape(), [small(build, 0.001)], [])


class TestCounts:
    @given(nodes=st.integers(1, 100_000))
    def test_ladders_are_short_and_reach_one_node(self, nodes: int) -> None:
        """Sizes fall by no more than half, down to one node, and there are few of them."""
        sizes = [nodes, *ladder_counts(nodes)]
        assert sizes == sorted(set(sizes), reverse=True)
        assert sizes[-1] == 1
        assert all(2 * less >= more for more, less in pairwise(sizes))
        assert len(sizes) <= 2 * nodes.bit_length() + 8

    def test_several_classes_are_halved_together(self, build: Any) -> None:
        """Two classes keep whole nodes down to one each."""
        classes = build.chip_class(nodes=5), build.chip_class("south/slow", nodes=2)
        counts = {c.name: c.chips for c in classes}
        assert [tuple(each.values()) for each in fewer_chips(counts, classes)] == [(4, 2), (2, 2)]

    @pytest.mark.slow
    def test_no_size_is_cheaper(self, build: Any) -> None:
        """The cheapest plan costs no more than the best on any number of nodes the job might have asked for."""
        chips = build.chip_class(nodes=12, tflops=0.004, nic_gbps=1.0, memory_gb=0.004, emulated=True)
        job = replace(build.job(global_batch_size=48), objective=Objective(goal="cheapest"))

        def price(job: Any) -> float:
            told = plan_job(job, build.shape(), [chips], [])[0].prediction
            assert told is not None
            return told.cost_per_trillion_tokens or 0.0

        least = price(job)
        for nodes in range(1, 13):
            try:
                assert least <= price(replace(job, chips=ChipsSpec(maximum=2 * nodes))) * (1 + 1e-9)
            except NeverFitsError:
                continue
