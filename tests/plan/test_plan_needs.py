"""What memory a model needs, the fewest chips that hold it, and the numbers of chips that are tried for a price."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import NeverFitsError
from argosy.contracts.job import ChipsSpec, Objective
from argosy.plan.forms import FORMS
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

    @pytest.mark.parametrize(("memory_gb", "nodes"), [(1.05, 8), (1.1, 4), (1.2, 2)])
    def test_context_parallelism_counts(self, build: Any, memory_gb: float, nodes: int) -> None:
        """One long sequence is spread by CP over chips of a node each: the fleet told is the first that has a plan."""
        chips = small(build, memory_gb, 1, chips_per_node=1, emulated=False, nic_gbps=100.0)
        job = build.job(sequence_length=65536, global_batch_size=1, precision="bf16")
        with pytest.raises(NeverFitsError, match=rf"Smallest fleet that fits: {nodes} fast"):
            plan_job(job, build.shape(), [replace(chips, nodes=nodes - 1)], [])
        assert plan_job(job, build.shape(), [replace(chips, nodes=nodes)], [])[0].replicas[0].stages[0].cp == nodes

    def test_several_nodes_have_a_network(self, build: Any) -> None:
        """A fleet of one node is told of more as they would be: over their network, not inside one node."""
        setting, found = build.setting("tiny", num_layers=8), []
        for nodes in (1, 15):
            chips = small(build, 1.0016, nodes, chips_per_node=4, emulated=False, nic_gbps=10.0)
            found.append(smallest_chips(build.search(setting, batch=5), chips, 5))
        assert found == [found[1]] * 2

    def test_no_network_no_more_nodes(self, build: Any) -> None:
        """Of nodes without NICs only one can work alone, and a model that it can't hold is told what is missing."""
        chips = small(build, 0.0016, 1, nic_gbps=0.0)
        assert smallest_chips(build.search(build.setting("tiny")), chips, 8) is None
        with pytest.raises(NeverFitsError, match="No single node holds it, and several need a network; give nics"):
            plan_job(build.job(), build.shape(), [chips], [])

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


class TestHindered:
    """What fits in memory and has no plan all the same."""

    def tight(self, build: Any) -> Any:
        """Build chips of which only a pipeline of two stages holds a model of five layers."""
        return small(build, 1.002, 2, emulated=False, nic_gbps=10.0)

    def job(self, build: Any, batch: int, minimum: int = 1) -> Any:
        """Build a job of so many short sequences that recomputes all."""
        job = build.job(global_batch_size=batch, precision="bf16", recompute="full", sequence_length=128)
        return replace(job, chips=ChipsSpec(minimum=minimum))

    @pytest.mark.parametrize("minimum", [1, 2])
    def test_too_few_microbatches(self, build: Any, minimum: int) -> None:
        """Of one micro-batch a pipeline of a framework without GPipe can't be filled; what would do is said."""
        shape = build.shape("tiny", num_layers=5)
        said = (
            "has 2 stages, and 1f1b and interleaved need a micro-batch for each; the batch makes 1, one of 2 would do"
        )
        with pytest.raises(NeverFitsError, match=said) as told:
            plan_job(self.job(build, 1, minimum), shape, [self.tight(build)], [], form=FORMS["megatron"])
        assert "chips.min" not in str(told.value)
        assert plan_job(self.job(build, 2), shape, [self.tight(build)], [], form=FORMS["megatron"])

    def test_no_even_shares(self, build: Any) -> None:
        """Where no number of replicas shares the batch out in their memory, that is said, and a fleet that would do."""
        chips = small(build, 1.0016, 12, chips_per_node=4, emulated=False, nic_gbps=10.0)
        job = build.job(global_batch_size=5, sequence_length=128)
        said = "the splits that fit can't share it out over their replicas; try another batch. Smallest fleet that fits"
        with pytest.raises(NeverFitsError, match=said):
            plan_job(job, build.shape("tiny", num_layers=8), [chips], [])

    def test_more_chips_are_asked_for_than_help(self, build: Any) -> None:
        """Only where fewer chips have a plan does chips.min stand in the way."""
        job = replace(build.job(global_batch_size=1), chips=ChipsSpec(minimum=4096))
        with pytest.raises(NeverFitsError, match=r"chips that chips.min asks .* lower chips.min or raise the batch"):
            plan_job(job, build.shape(), [build.chip_class(nodes=2048)], [])


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
