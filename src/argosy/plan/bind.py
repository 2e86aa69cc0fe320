"""Give every rank of a plan its node and chip.

Ranks are numbered site by site, then replica by replica and stage by stage, and within a stage by EP, CP and TP index,
TP innermost; virtual stages of one place share their ranks. Nodes of a class are filled in the order given, the widest
stages first; a stage lies within one node or on whole nodes. Must not know whether a node is free or healthy: it is
told which nodes to use.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields, replace
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, islice, pairwise, repeat
from typing import TypeVar

from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.plan import Plan, RankPlace, Replica, Stage
from argosy.plan.telling.explain import site_of
from argosy.plan.timing.check import check_form

T = TypeVar("T")
Seat = tuple[int, int, Stage]
"""A place of a replica, which has ranks of its own: replica, place, its first stage."""
Spot = tuple[Node, int]
"""A node and the first of the chips that are taken of it."""


def bind(plan: Plan, nodes: Sequence[Node]) -> Plan:
    """Place a plan on nodes; raises BadInputError when the nodes of a class lack the chips that it asks for."""
    check_form(plan)
    check_nodes(nodes)
    depths = [len(replica.stages) // plan.virtual_stages for replica in plan.replicas]
    seats = [(r, s, plan.replicas[r].stages[s]) for r, depth in enumerate(depths) for s in range(depth)]
    widths = [stage.width for _, _, stage in seats]
    spots = taken_spots(plan, seats, widths, nodes)
    order = by_site(plan, seats, nodes)
    begins = dict(zip(order, accumulate((widths[index] for index in order), initial=0), strict=False))
    ranks = [range(begins[index], begins[index] + width) for index, width in enumerate(widths)]
    return replace(plan, replicas=ranked(plan, ranks), placement=tuple(rank_places(seats, spots, ranks, order)))


def check_nodes(nodes: Sequence[Node]) -> None:
    """Refuse a node that is given twice, one without chips, and one that is not in the site of its class."""
    seen = set[str]()
    for node in nodes:
        if node.name in seen:
            raise BadInputError(f"node {node.name} is given more than once; give every node once")
        seen.add(node.name)
        if node.chips < 1:
            raise BadInputError(f"node {node.name} has {node.chips} chips; it needs at least 1")
        if node.site != site_of(node.chip_class):
            raise BadInputError(
                f"node {node.name} is in {node.site}, its class {node.chip_class} in {site_of(node.chip_class)}; "
                "a class is of one site"
            )


def taken_spots(
    plan: Plan, seats: Sequence[Seat], widths: Sequence[int], nodes: Sequence[Node]
) -> list[Sequence[Spot]]:
    """Take chips for every seat: on one node, or whole nodes; the widest first, so that narrow ones fill what is left.

    Within a width the order of seats and nodes is kept, so neighbours in a pipeline are neighbours in the fleet.
    """
    taken: list[Sequence[Spot]] = [()] * len(seats)
    free: dict[str, list[Spot]] = {}
    for node in nodes:
        free.setdefault(node.chip_class, []).append((node, 0))
    asked: dict[tuple[str, int, int], list[int]] = {}
    for index, (_, _, stage) in enumerate(seats):
        asked.setdefault((stage.chip_class, widths[index], stage.tp), []).append(index)
    for (name, width, tp), indexes in sorted(asked.items(), key=lambda item: -item[0][1]):
        groups = free_groups(free.get(name, []), width, tp)
        for index in indexes:
            spots = next(groups, None)
            if spots is None:
                raise lacking(plan, seats[index][2], nodes)
            taken[index] = spots
    return taken


def free_groups(free: list[Spot], width: int, tp: int) -> Iterator[Sequence[Spot]]:
    """Give groups of so many chips, in the order of the nodes; what is given is marked taken in `free`.

    free: for each node, itself and the first of its chips that is free. A TP group never leaves its node; whole nodes
    that share a stage have as many chips each.
    """
    whole: dict[int, list[int]] = {}
    for index, (node, first) in enumerate(free):
        if width <= node.chips:
            for begun in range(first, node.chips - width + 1, width):
                free[index] = (node, begun + width)
                yield ((node, begun),)
        elif first == 0 and node.chips % tp == 0 and width % node.chips == 0:
            some = whole.setdefault(node.chips, [])
            some.append(index)
            if len(some) * node.chips == width:
                spots = [free[each] for each in some]
                for each in some:
                    free[each] = (free[each][0], node.chips)
                some.clear()
                yield spots


def by_site(plan: Plan, seats: Sequence[Seat], nodes: Sequence[Node]) -> list[int]:
    """Put seats in the order in which ranks are counted: those of a site together, else as the plan lists them.

    Sites come in the order in which pipelines go through them. Where two pipelines disagree there is no such order
    that lets ranks ascend along both, so ranks then count replica by replica alone.
    """
    site_of = {node.chip_class: node.site for node in nodes}
    after = TopologicalSorter[str]()
    for replica in {id(replica.stages): replica for replica in plan.replicas}.values():
        sites = [site_of[stage.chip_class] for stage in plan.places(replica)]
        after.add(sites[0])
        for before, behind in pairwise(sites):
            if behind != before:
                after.add(behind, before)
    try:
        place = {site: index for index, site in enumerate(after.static_order())}
    except CycleError:
        return list(range(len(seats)))
    at = [place[site_of[stage.chip_class]] for _, _, stage in seats]
    return sorted(range(len(seats)), key=at.__getitem__)


def rank_places(
    seats: Sequence[Seat], spots: Sequence[Sequence[Spot]], ranks: Sequence[range], order: Sequence[int]
) -> list[RankPlace]:
    """Say where each rank is. ranks: of each seat; order: of the seats, by their ranks."""
    nodes: list[str] = []
    chips: list[int] = []
    own: list[int] = []
    for index in order:
        shared = len(ranks[index]) // len(spots[index])
        for node, first in spots[index]:
            nodes += [node.name] * shared
            chips += range(first, first + shared)
        own += [index] * len(ranks[index])
    tps, cps = ([getattr(stage, name) for _, _, stage in seats] for name in ("tp", "cp"))
    within = [rank for index in order for rank in range(len(ranks[index]))]
    return built(
        RankPlace,
        {
            "rank": range(len(own)),
            "node": nodes,
            "chip": chips,
            "replica": [seats[index][0] for index in own],
            "stage": [seats[index][1] for index in own],
            "tp_index": [at % tps[index] for at, index in zip(within, own, strict=True)],
            "cp_index": [at // tps[index] % cps[index] for at, index in zip(within, own, strict=True)],
            "ep_index": [at // (tps[index] * cps[index]) for at, index in zip(within, own, strict=True)],
        },
    )


def ranked(plan: Plan, ranks: Sequence[range]) -> tuple[Replica, ...]:
    """Tell every stage its ranks. ranks: of each place of each replica, in the plan's order."""
    seats: dict[int, tuple[Stage, list[int], list[tuple[int, ...]]]] = {}
    count = begun = 0
    for replica in plan.replicas:
        places = len(replica.stages) // plan.virtual_stages
        for index, stage in enumerate(replica.stages):
            # Like replicas share their stages, which are copied together.
            _, where, given = seats.setdefault(id(stage), (stage, [], []))
            where.append(count + index)
            given.append(tuple(ranks[begun + index % places]))
        count += len(replica.stages)
        begun += places
    stages: list[Stage] = [plan.replicas[0].stages[0]] * count
    for stage, where, given in seats.values():
        columns = {each.name: repeat(getattr(stage, each.name)) for each in fields(Stage)} | {"ranks": given}
        for index, copy in zip(where, built(Stage, columns), strict=True):
            stages[index] = copy
    left = iter(stages)
    return tuple(
        Replica(
            stages=tuple(islice(left, len(replica.stages))),
            microbatches=replica.microbatches,
            microbatch_size=replica.microbatch_size,
            sends=replica.sends,
        )
        for replica in plan.replicas
    )


def built(kind: type[T], columns: Mapping[str, Iterable[object]]) -> list[T]:
    """Make many frozen dataclasses of one kind, field by field: several times as fast as one by one.

    columns: the values of every field; those that are not sized repeat.
    """
    count = max(len(values) for values in columns.values() if isinstance(values, Sized))
    made = [object.__new__(kind) for _ in range(count)]
    for name, values in columns.items():
        deque(map(getattr(kind, name).__set__, made, values), maxlen=0)
    return made


def lacking(plan: Plan, stage: Stage, nodes: Sequence[Node]) -> BadInputError:
    """Say which class lacks chips."""
    name, width = stage.chip_class, stage.width
    asked = sum(s.width for replica in plan.replicas for s in plan.places(replica) if s.chip_class == name)
    given = [node for node in nodes if node.chip_class == name]
    chips = sum(node.chips for node in given)
    most = max((node.chips for node in given), default=0)
    beside = width <= most or stage.tp == width
    how = f"{width} side by side on a node" if beside else f"{width} at a time on whole nodes"
    return BadInputError(
        f"the plan asks for {asked:,} chips of {name}, {how}; the {len(given):,} nodes given have {chips:,}; "
        "plan again for these nodes or give more"
    )
