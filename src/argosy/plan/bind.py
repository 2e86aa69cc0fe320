"""Give every rank of a plan its node and chip.

Ranks are numbered replica by replica, stage by stage, then by TP index; nodes of a class are filled in that order and
in the order given. A TP group never leaves its node. Must not know whether a node is free or healthy: it is told which
nodes to use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.plan import Plan, RankPlace, Replica, Stage


@dataclass(slots=True)
class Slots:
    """Chips of one class's nodes. used: how many are taken of each node. at: the node being filled."""

    nodes: list[Node]
    used: list[int]
    at: int = 0

    def take(self, chips: int) -> tuple[str, int] | None:
        """Take chips side by side on one node; answers its name and the first chip, None when no node has so many."""
        for index in (*range(self.at, len(self.nodes)), *range(self.at)):
            first = self.used[index]
            if self.nodes[index].chips - first >= chips:
                self.used[index] += chips
                self.at = index
                return self.nodes[index].name, first
        return None


def bind(plan: Plan, nodes: Sequence[Node]) -> Plan:
    """Place a plan on nodes; raises BadInputError when the nodes of a class lack the chips that it asks for."""
    slots: dict[str, Slots] = {}
    for node in nodes:
        of_class = slots.setdefault(node.chip_class, Slots(nodes=[], used=[]))
        of_class.nodes.append(node)
        of_class.used.append(0)
    placement: list[RankPlace] = []
    replicas: list[Replica] = []
    for r, replica in enumerate(plan.replicas):
        stages = []
        for s, stage in enumerate(replica.stages):
            spot = slots[stage.chip_class].take(stage.tp) if stage.chip_class in slots else None
            if spot is None:
                raise lacking(plan, stage, nodes)
            ranks = range(len(placement), len(placement) + stage.tp)
            placement += [
                RankPlace(rank=rank, node=spot[0], chip=spot[1] + index, replica=r, stage=s, tp_index=index)
                for index, rank in enumerate(ranks)
            ]
            stages.append(replace(stage, ranks=tuple(ranks)))
        replicas.append(replace(replica, stages=tuple(stages)))
    return replace(plan, replicas=tuple(replicas), placement=tuple(placement))


def lacking(plan: Plan, stage: Stage, nodes: Sequence[Node]) -> BadInputError:
    """Say which class lacks chips."""
    name = stage.chip_class
    asked = sum(s.tp for replica in plan.replicas for s in replica.stages if s.chip_class == name)
    given = [node for node in nodes if node.chip_class == name]
    chips = sum(node.chips for node in given)
    return BadInputError(
        f"the plan asks for {asked} chips of {name}, {stage.tp} side by side on a node; the {len(given)} nodes given "
        f"have {chips}; plan again for these nodes or give more"
    )
