"""The plan that a draft stands for: of all replicas, or a sketch with one of each group that takes as long.

Must not know which draft is better.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from argosy.contracts.plan import Exchange, Plan, Replica, Wire
from argosy.network.exchanges import Run
from argosy.plan.costs.rings import Held, Ring, gradient_bytes, holder_of, make_ring
from argosy.plan.pipelines.stages import holding_stages, updated_stages
from argosy.plan.search.drafts import Draft, Group

# The all-reduce of the gradient norm: there and back over the longest wire, and its start.
BARRIER_START_MS = 0.02


def sketch(draft: Draft) -> Plan:
    """Make a plan with one replica of each group: it takes as long as the whole, for like replicas do like things.

    Its global_batch_size is that of the replicas shown.
    """
    return make_plan(draft, [1] * len(draft.groups))


def whole(draft: Draft) -> Plan:
    """Make the plan of all replicas."""
    return make_plan(draft, [group.count for group in draft.groups])


def make_plan(draft: Draft, counts: Sequence[int]) -> Plan:
    """Make a plan that shows so many replicas of each group; bytes and hops are those of the draft."""
    plan, runs = make_parts(draft, counts)
    return replace(plan, exchanges=tuple(replace(one, unit=unit) for one, units in runs for unit in units))


def make_parts(draft: Draft, counts: Sequence[int]) -> tuple[Plan, list[Run]]:
    """Make that plan without its exchanges, and these in runs, whose units ascend."""
    plan = bare_plan(draft)
    replicas: list[Replica] = []
    owners: list[int] = []
    for index, (group, count, shards) in enumerate(zip(draft.groups, counts, draft.shards, strict=True)):
        replicas += [make_replica(draft, plan, group, shards)] * count
        owners += [index] * count
    runs, ring_wires = make_runs(draft, plan, owners)
    wires = unique([*(wire for group in draft.groups for wire in group.template.wires), *ring_wires])
    made = replace(
        plan,
        global_batch_size=sum(replica.sequences for replica in replicas),
        replicas=tuple(replicas),
        wires=wires,
        barrier_ms=barrier_ms(wires, sum(draft.chips.values())),
    )
    return made, runs


def bare_plan(draft: Draft) -> Plan:
    """Make the plan of a draft without its replicas and what joins them."""
    return Plan(
        model=draft.model,
        num_layers=draft.setting.shape.num_layers,
        fleet=draft.fleet,
        sequence_length=draft.setting.sequence_length,
        global_batch_size=0,
        replicas=(),
        precision=draft.setting.precision,
        schedule=draft.schedule,
        virtual_stages=draft.groups[0].template.layout.virtual_stages,
        zero_stage=draft.zero_stage,
        tied_embeddings=draft.setting.shape.tied_embeddings,
        emulated=any(chip_class.emulated for chip_class in draft.classes.values()),
        program=draft.setting.program.name,
    )


def make_replica(draft: Draft, plan: Plan, group: Group, shards: int) -> Replica:
    """Make a replica of a group, with the time of its optimizer's step, sharded so."""
    template = group.template
    return Replica(
        stages=updated_stages(draft.setting, plan, template, shards),
        microbatches=group.microbatches,
        microbatch_size=template.layout.microbatch_size,
        sends=template.sends,
    )


def make_runs(draft: Draft, plan: Plan, owners: Sequence[int]) -> tuple[list[Run], list[Wire]]:
    """Make the gradient exchanges of all units that more than one place holds, in runs, and the wires they take.

    owners: the group's index of each replica shown.
    """
    held = [holding_stages(draft.setting, plan, group.template) for group in draft.groups]
    kinds = [group.template.layout.run_numbers for group in draft.groups]
    depths = [group.template.layout.depth for group in draft.groups]
    rings: dict[object, Ring | None] = {}
    alike: dict[object, Exchange] = {}
    made: list[Run] = []
    units, kind = draft.setting.shape.units, draft.setting.kind
    spots_of = zip(*(map(stages.__getitem__, units) for stages in held), strict=True)
    lying = zip(units, spots_of, map(kind, units), strict=True)
    for (spots, like), run in itertools.groupby(lying, key=itemgetter(1, 2)):
        same = tuple(unit for unit, _, _ in run)
        # Places of the same runs go round rings that differ in their members alone.
        runs = tuple(
            tuple(numbers[s % depth] for s in at) for numbers, depth, at in zip(kinds, depths, spots, strict=True)
        )
        if runs not in rings:
            rings[runs] = ring_of(draft, spots, owners)
        ring = rings[runs]
        if ring is None:
            continue
        if (runs, like) not in alike:
            size = gradient_bytes(draft.setting, same[0], ring.tp)
            alike[runs, like] = ring.exchange(same[0], size, draft.zero_stage)
        members = tuple((r, s) for r, owner in enumerate(owners) for s in spots[owner])
        made.append((among(alike[runs, like], members), same))
    return made, [wire for ring in rings.values() if ring for wire in ring.wires]


def among(exchange: Exchange, members: tuple[tuple[int, int], ...]) -> Exchange:
    """Give an exchange other members, each in the place of one of its own."""
    if exchange.members == members:
        return exchange
    now = dict(zip(exchange.members, members, strict=True)) if exchange.gathers else {}
    gathers = tuple(replace(one, members=tuple(now[member] for member in one.members)) for one in exchange.gathers)
    return replace(exchange, members=members, gathers=gathers)


def ring_of(draft: Draft, spots: Sequence[tuple[int, ...]], owners: Sequence[int]) -> Ring | None:
    """Make the ring of all who hold some units, or None for a single holder.

    spots: the stages that hold them, by group. owners: the group's index of each replica shown.
    """
    used = draft.chips
    by_group = [holders_of(group, at, used) for group, at in zip(draft.groups, spots, strict=True)]
    members = tuple(
        ((r, s), one.site)
        for r, owner in enumerate(owners)
        for s, one in zip(spots[owner], by_group[owner], strict=True)
    )
    return make_ring(
        [one for held in by_group for one in held],
        members,
        draft.links,
        hierarchical=draft.hierarchical,
        weight_bytes=draft.setting.numerics.weight_bytes,
    )


def holders_of(group: Group, stages: Iterable[int], used: Mapping[str, int]) -> list[Held]:
    """Describe who holds a unit in a group. used: chips of each class that the draft uses."""
    layout = group.template.layout
    of_class = {run.chip_class.name: 0 for run in layout.runs}
    for run in layout.runs:
        of_class[run.chip_class.name] += run.places
    found = []
    for stage in stages:
        run = layout.places[layout.place_of(stage)]
        name = run.chip_class.name
        holder = holder_of(run.chip_class, run.tp, layout.width(run), of_class[name], used[name])
        found.append(Held(holder=holder, count=group.count, copies=layout.cp * layout.ep, ep=layout.ep))
    return found


def barrier_ms(wires: Iterable[Wire], ranks: int) -> float:
    """Time the all-reduce of the gradient norm; nothing with a single rank."""
    return BARRIER_START_MS + 2 * max((wire.one_way_ms for wire in wires), default=0.0) if ranks > 1 else 0.0


def unique(wires: Iterable[Wire]) -> tuple[Wire, ...]:
    """Keep one wire of each name, in order."""
    return tuple({wire.name: wire for wire in wires}.values())
