"""Plans in many sizes."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.job import ChipsSpec
from argosy.plan.search.sizes import ladder, nodes_used, offered_sets, packed_nodes, sized_plans


class TestLadder:
    def test_alone(self, build: Any) -> None:
        """A class alone is tried with all its nodes and with every power of two below."""
        sizes = ladder((build.chip_class(nodes=12),))
        assert [members[0].nodes for members in sizes] == [12, 8, 4, 2, 1]

    def test_together(self, build: Any) -> None:
        """Several classes are halved together, each down to one node."""
        sizes = ladder((build.chip_class(nodes=8), build.chip_class("south/slow", nodes=3)))
        assert [tuple(c.nodes for c in members) for members in sizes] == [(8, 3), (4, 1), (2, 1), (1, 1)]


class TestSets:
    def test_alone_paired_and_all(self, build: Any) -> None:
        """Of three classes each alone, each pair and all are tried."""
        classes = [build.chip_class(name) for name in ("north/a", "north/b", "south/c")]
        names = [tuple(c.name for c in members) for members in offered_sets(classes)]
        assert Counter(map(len, names)) == {1: 3, 2: 3, 3: 1}

    def test_many_classes(self, build: Any) -> None:
        """Of many classes there are no pairs, but each site's and all."""
        classes = [build.chip_class(f"{site}/{chip}") for site in ("north", "south") for chip in "abc"]
        assert Counter(map(len, offered_sets(classes))) == {1: 6, 3: 2, 6: 1}


class TestNodes:
    @pytest.mark.parametrize(
        ("widths", "node_chips", "nodes"),
        [({1: 9}, 8, 2), ({8: 2, 2: 3}, 8, 3), ({16: 2}, 8, 4), ({3: 3}, 8, 2), ({2: 4}, 3, 4), ({1: 1}, 1, 1)],
    )
    def test_packing(self, widths: dict[int, int], node_chips: int, nodes: int) -> None:
        """Groups that divide a node share it without a gap, wider ones take whole nodes."""
        assert packed_nodes(Counter(widths), node_chips) == nodes


@pytest.mark.slow
class TestPlans:
    def test_sizes(self, build: Any) -> None:
        """Each class alone and both together are planned in every size."""
        classes = [build.chip_class("north/fast"), build.chip_class("south/slow", tflops=0.5, nodes=1)]
        plans = sized_plans(build.job(), build.shape(), classes, [build.link(gbps=1000)])
        used = [tuple(sorted(nodes_used(plan, classes).items())) for plan in plans]
        assert {(("north/fast", 1),), (("north/fast", 2),), (("south/slow", 1),)} <= set(used)
        assert any(len(nodes) == 2 for nodes in used)

    def test_no_link(self, build: Any) -> None:
        """Sites that no long link joins are planned apart only."""
        classes = [build.chip_class("north/fast", nodes=1), build.chip_class("south/slow", nodes=1)]
        plans = sized_plans(build.job(), build.shape(), classes, [])
        assert {len(nodes_used(plan, classes)) for plan in plans} == {1}

    def test_a_single_node_is_its_own_network(self, build: Any) -> None:
        """A plan on one node of many is no slower than on a fleet of that node alone."""
        large, small = (build.chip_class(nodes=count, nic_gbps=5.0) for count in (4, 1))
        plans = sized_plans(build.job(), build.shape(), [large], [])
        alone = sized_plans(build.job(), build.shape(), [small], [])[0].prediction
        assert min(plans, key=lambda plan: plan.world_size).prediction.step_ms <= alone.step_ms

    def test_limits_of_the_job(self, build: Any) -> None:
        """What the job says of chips holds in every size."""
        job = replace(build.job(), chips=ChipsSpec(allow=("fast",), minimum=4, maximum=6))
        classes = [build.chip_class("north/fast", nodes=4), build.chip_class("south/slow", nodes=4)]
        for plan in sized_plans(job, build.shape(), classes, [build.link()]):
            used = nodes_used(plan, classes)
            assert set(used) == {"north/fast"}
            assert plan.world_size <= 6

    def test_nothing_fits(self, build: Any) -> None:
        """Where no size fits the planner's own reason is given; unknown chips are named."""
        small = build.chip_class(memory_gb=0.001)
        with pytest.raises(NeverFitsError, match="does not fit"):
            sized_plans(build.job(), build.shape(), [small], [])
        with pytest.raises(BadInputError, match="did you mean fast"):
            sized_plans(replace(build.job(), chips=ChipsSpec(allow=("fats",))), build.shape(), [small], [])

    def test_progress(self, build: Any) -> None:
        """It says how far it is, up to the end."""
        told: list[tuple[int, int]] = []
        sized_plans(build.job(), build.shape(), [build.chip_class()], [], progress=lambda *at: told.append(at))
        assert told[0][0] == 0
        assert told[-1][0] == told[-1][1]
