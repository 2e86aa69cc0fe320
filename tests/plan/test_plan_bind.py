"""Placing a plan on nodes."""

from dataclasses import replace
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.plan import Plan
from argosy.plan.bind import bind
from argosy.plan.planner import plan_job


def nodes(count: int = 2, chips: int = 2, chip_class: str = "north/fast") -> list[Node]:
    """Build like nodes of one class."""
    site = chip_class.split("/")[0]
    return [Node(name=f"{site}-{i + 1}", site=site, chip_class=chip_class, chips=chips) for i in range(count)]


@pytest.fixture(scope="module")
def plan(build: Any) -> Plan:
    """Plan the tiny model on two nodes of two chips that hold a stage each only as a pair."""
    chips = build.chip_class(tflops=0.002)
    made = plan_job(build.job(), build.shape(), [chips], ())[0]
    stages = tuple(replace(stage, tp=2) for stage in made.replicas[0].stages)
    return replace(made, replicas=(replace(made.replicas[0], stages=stages),) * 2)


class TestBind:
    def test_numbering(self, plan: Plan) -> None:
        """Ranks count up by replica, stage and TP index, and each stage lists its own."""
        bound = bind(plan, nodes())
        assert [place.rank for place in bound.placement] == list(range(bound.world_size))
        order = [(place.replica, place.stage, place.tp_index) for place in bound.placement]
        assert order == sorted(order)
        assert [stage.ranks for replica in bound.replicas for stage in replica.stages] == [(0, 1), (2, 3)]

    def test_nodes_are_filled_in_order(self, plan: Plan) -> None:
        """A TP group has a node's chips side by side; the next takes the next node."""
        bound = bind(plan, nodes())
        assert [(p.node, p.chip) for p in bound.placement] == [
            ("north-1", 0),
            ("north-1", 1),
            ("north-2", 0),
            ("north-2", 1),
        ]

    def test_never_across_nodes(self, plan: Plan) -> None:
        """A TP group does not straddle two nodes: what is left of a node stays free."""
        bound = bind(plan, nodes(chips=3))
        assert [p.node for p in bound.placement] == ["north-1", "north-1", "north-2", "north-2"]

    def test_only_placement_changes(self, plan: Plan) -> None:
        """Binding changes nothing else of a plan, and binding again gives the same."""
        bound = bind(plan, nodes())
        assert bind(bound, nodes()) == bound
        assert replace(bound, placement=(), replicas=()) == replace(plan, replicas=())

    @pytest.mark.parametrize("given", [nodes(1), nodes(4, chips=1), nodes(2, chip_class="south/slow"), []])
    def test_lacking(self, plan: Plan, given: list[Node]) -> None:
        """Nodes that can't hold the plan are refused, naming the class and the chips asked for."""
        with pytest.raises(BadInputError, match="asks for 4 chips of north/fast, 2 side by side"):
            bind(plan, given)
