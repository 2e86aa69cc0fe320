"""Placing a plan on nodes."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.plan import Plan, Replica, Stage
from argosy.plan.bind import bind


def nodes(count: int = 2, chips: int = 2, chip_class: str = "north/fast", first: int = 1) -> list[Node]:
    """Build like nodes of one class."""
    site = chip_class.split("/")[0]
    return [Node(name=f"{site}-{first + i}", site=site, chip_class=chip_class, chips=chips) for i in range(count)]


def stage(layer: int, chip_class: str = "north/fast", tp: int = 1, cp: int = 1, ep: int = 1) -> Stage:
    """Build a stage of one layer."""
    return Stage(
        first_layer=layer,
        end_layer=layer + 1,
        chip_class=chip_class,
        forward_ms=1.0,
        backward_ms=2.0,
        backward_shares=(1.0,),
        tp=tp,
        cp=cp,
        ep=ep,
    )


def make_plan(*pipelines: tuple[Stage, ...], virtual_stages: int = 1) -> Plan:
    """Build a plan of one replica for each pipeline."""
    replicas = tuple(Replica(stages=stages, microbatches=2, microbatch_size=1) for stages in pipelines)
    return Plan(
        model="tiny",
        num_layers=len(pipelines[0]),
        fleet="fleet",
        sequence_length=64,
        global_batch_size=sum(replica.sequences for replica in replicas),
        replicas=replicas,
        virtual_stages=virtual_stages,
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two replicas of one stage on a pair of chips."""
    return make_plan(*[(stage(0, tp=2),)] * 2)


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

    def test_a_node_given_twice(self, plan: Plan) -> None:
        """A node that is given twice would have its chips taken twice, so it is refused by name."""
        with pytest.raises(BadInputError, match="node north-1 is given more than once"):
            bind(plan, [*nodes(1), *nodes(1)])


class TestAxes:
    def test_indexes(self) -> None:
        """Within a stage TP is innermost, then CP, then EP."""
        bound = bind(make_plan((stage(0, tp=2, cp=2, ep=2),)), nodes(1, chips=8))
        at = [(p.ep_index, p.cp_index, p.tp_index) for p in bound.placement]
        assert at == [(e, c, t) for e in range(2) for c in range(2) for t in range(2)]

    def test_whole_nodes(self) -> None:
        """A stage wider than a node takes whole nodes; its TP groups stay within one."""
        bound = bind(make_plan((stage(0, tp=2, ep=4),), (stage(0, tp=2, ep=4),)), nodes(4, chips=4))
        assert [p.node for p in bound.placement] == [f"north-{n}" for n in range(1, 5) for _ in range(4)]
        assert [p.chip for p in bound.placement] == [0, 1, 2, 3] * 4

    def test_a_wide_stage_needs_whole_nodes(self) -> None:
        """A stage that is neither within a node nor of whole nodes is refused."""
        with pytest.raises(BadInputError, match="asks for 6 chips of north/fast, 6 at a time on whole nodes"):
            bind(make_plan((stage(0, tp=2, ep=3),)), nodes(4, chips=4))

    def test_virtual_stages_share_ranks(self) -> None:
        """Stage s and s + p run on the same place, so they have the same ranks, which are placed once."""
        bound = bind(make_plan(tuple(stage(layer, tp=2) for layer in range(4)), virtual_stages=2), nodes(2))
        assert [each.ranks for each in bound.replicas[0].stages] == [(0, 1), (2, 3), (0, 1), (2, 3)]
        assert [(p.rank, p.stage) for p in bound.placement] == [(0, 0), (1, 0), (2, 1), (3, 1)]

    def test_narrow_stages_fill_what_wide_ones_leave(self) -> None:
        """Stages of several widths fit whenever their chips do, whatever the order they come in."""
        pipelines = [(stage(0, tp=tp),) for tp in (1, 4, 1, 2, 4, 1, 2, 1)]
        bound = bind(make_plan(*pipelines), nodes(2, chips=8))
        assert len({(p.node, p.chip) for p in bound.placement}) == 16


class TestRefused:
    """Plans and nodes made by hand, which used to end in an IndexError or a division by zero."""

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"replicas": ()}, "no replica"),
            ({"virtual_stages": 0}, "1 stages can't be 0 virtual stages"),
            ({"virtual_stages": 3}, "1 stages can't be 3 virtual stages"),
            ({"replicas": (Replica(stages=(), microbatches=1, microbatch_size=1),)}, "replica 0 has no stage"),
            ({"replicas": make_plan((stage(0, tp=0),)).replicas}, "TP 0, CP 1, EP 1; each is at least 1"),
            ({"replicas": make_plan((stage(0, cp=-1),)).replicas}, "CP -1"),
        ],
        ids=str,
    )
    def test_plans(self, plan: Plan, changes: dict[str, Any], text: str) -> None:
        """A plan whose counts can't be is refused before anything is divided by them."""
        with pytest.raises(BadInputError, match=text):
            bind(replace(plan, **changes), nodes())

    @pytest.mark.parametrize(
        ("changes", "text"), [({"site": "south"}, "is in south, its class"), ({"chips": 0}, "0 chips")]
    )
    def test_nodes(self, plan: Plan, changes: dict[str, Any], text: str) -> None:
        """A node elsewhere than its class, and one without chips, are refused by name."""
        first, second = nodes()
        with pytest.raises(BadInputError, match=f"node north-2.*{text}"):
            bind(plan, [first, replace(second, **changes)])


class TestSites:
    def test_ranks_of_a_site_are_together(self) -> None:
        """Pipelines from north to south have all their northern ranks first, then the southern."""
        pipeline = (stage(0), stage(1, "south/slow"))
        bound = bind(make_plan(pipeline, pipeline), [*nodes(1, chip_class="south/slow"), *nodes(1)])
        assert [(p.node, p.replica, p.stage) for p in bound.placement] == [
            ("north-1", 0, 0),
            ("north-1", 1, 0),
            ("south-1", 0, 1),
            ("south-1", 1, 1),
        ]

    def test_ranks_ascend_along_every_pipeline(self) -> None:
        """A pipeline's ranks ascend from stage to stage, also where two go through the sites in opposite order."""
        there = (stage(0), stage(1, "south/slow"))
        back = (stage(0, "south/slow"), stage(1))
        bound = bind(make_plan(there, back, there), [*nodes(2), *nodes(2, chip_class="south/slow")])
        firsts = [[each.ranks[0] for each in replica.stages] for replica in bound.replicas]
        assert firsts == [[0, 1], [2, 3], [4, 5]]


TPS = st.sampled_from([1, 2, 4, 8])


class TestLaw:
    @given(st.lists(st.tuples(TPS, st.integers(1, 3)), min_size=1, max_size=12))
    @settings(derandomize=True, max_examples=40)
    def test_each_chip_once(self, pipelines: list[tuple[int, int]]) -> None:
        """Every rank has a chip of its own; stage and placement tell the same; groups lie on one node."""
        made = make_plan(*[tuple(stage(layer, tp=tp) for layer in range(depth)) for tp, depth in pipelines])
        bound = bind(made, nodes(-(-made.world_size // 8), chips=8))
        assert max(Counter((p.node, p.chip) for p in bound.placement).values()) == 1
        for replica_number, replica in enumerate(bound.replicas):
            for number, each in enumerate(replica.stages):
                own = [p for p in bound.placement if (p.replica, p.stage) == (replica_number, number)]
                assert tuple(p.rank for p in own) == each.ranks
                assert len({p.node for p in own}) == 1
