"""A draft: replicas of one or more templates, their micro-batches dealt; and the Plan that it stands for.

Like replicas are kept as one group with a count, so that a draft of thousands of replicas is timed like one of a few.
Must not know which draft is better.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import Exchange, Plan, Replica, Stage, Wire
from argosy.plan.cost import gradient_bytes, update_ms
from argosy.plan.links import Holder, ring_bytes, ring_hops, ring_wire
from argosy.plan.schedules import choose_schedule
from argosy.plan.setting import Setting, Way
from argosy.plan.shares import Kind, deal
from argosy.plan.templates import Template, crossing_streams, rejoined, timed_stages

# The all-reduce of the gradient norm: there and back over the longest wire, and its start.
BARRIER_START_MS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Like replicas: count replicas of a template, each with so many micro-batches."""

    template: Template
    count: int
    microbatches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Groups of replicas that together take the global batch."""

    setting: Setting
    model: str
    fleet: str
    groups: tuple[Group, ...]
    schedule: str
    zero_stage: int
    links: tuple[LongLink, ...]

    @property
    def replicas(self) -> int:
        """How many replicas there are."""
        return sum(group.count for group in self.groups)

    @property
    def classes(self) -> dict[str, ChipClass]:
        """Classes in use by name, in the order of the groups."""
        return {c.name: c for group in self.groups for c, _ in group.template.layout.runs}

    @property
    def chips(self) -> dict[str, int]:
        """Chips in use of each class."""
        used = dict.fromkeys(self.classes, 0)
        for group in self.groups:
            for chip_class, stages in group.template.layout.runs:
                used[chip_class.name] += group.count * group.template.layout.tp * stages
        return used


def make_draft(base: Draft, templates: Sequence[tuple[Template, int]], batch: int, schedule: str = "") -> Draft | None:
    """Deal a global batch (in sequences) over counts of templates with one micro-batch size.

    None where it can't be dealt, or where what the schedule holds would not fit. schedule: empty chooses.
    """
    size = templates[0][0].layout.microbatch_size
    kinds = [Kind(pace_ms=t.pace_ms, fill_ms=t.fill_ms, count=count) for t, count in templates]
    dealt = deal(kinds, batch // size) if batch % size == 0 else None
    if not dealt:
        return None
    groups = tuple(
        Group(template=template, count=count, microbatches=microbatches)
        for (template, _), shares in zip(templates, dealt, strict=True)
        for microbatches, count in shares
    )
    best = [choose_schedule(len(g.template.stages), g.microbatches) for g in groups]
    chosen = schedule or ("gpipe" if "gpipe" in best else "1f1b")
    if chosen == "1f1b" and "gpipe" in best:
        return None
    return refitted(replace(base, groups=groups, schedule=chosen))


def refitted(draft: Draft) -> Draft | None:
    """State memory for the schedule, micro-batches and shards there really are, and the share of long links.

    None if a stage does not fit.
    """
    shards = draft.replicas if draft.zero_stage else 1
    layouts = [
        replace(
            group.template.layout,
            schedule=draft.schedule,
            microbatches=group.microbatches,
            count=group.count,
            shards=shards,
        )
        for group in draft.groups
    ]
    streams = crossing_streams(layouts)
    groups = []
    for group, layout in zip(draft.groups, layouts, strict=True):
        stages = timed_stages(draft.setting, layout, [stage.end_layer for stage in group.template.stages])
        if any(stage.memory_gb > stage.memory_limit_gb for stage in stages):
            return None
        template = replace(group.template, layout=layout, stages=stages)
        groups.append(replace(group, template=rejoined(template, draft.links, streams)))
    return replace(draft, groups=tuple(groups))


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
    plan = bare_plan(draft)
    replicas: list[Replica] = []
    owners: list[int] = []
    for index, (group, count) in enumerate(zip(draft.groups, counts, strict=True)):
        replicas += [make_replica(draft, plan, group)] * count
        owners += [index] * count
    exchanges, ring_wires = make_exchanges(draft, plan, owners)
    wires = unique([*(wire for group in draft.groups for wire in group.template.wires), *ring_wires])
    return replace(
        plan,
        global_batch_size=sum(replica.sequences for replica in replicas),
        replicas=tuple(replicas),
        wires=wires,
        exchanges=exchanges,
        barrier_ms=barrier_ms(wires, sum(draft.chips.values())),
    )


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
        zero_stage=draft.zero_stage,
        tied_embeddings=draft.setting.shape.tied_embeddings,
        emulated=any(chip_class.emulated for chip_class in draft.classes.values()),
    )


def make_replica(draft: Draft, plan: Plan, group: Group) -> Replica:
    """Make a replica of a group, with the time of its optimizer's step."""
    template = group.template
    shards = draft.replicas if draft.zero_stage else 1
    return Replica(
        stages=tuple(
            replace(stage, update_ms=stage_update_ms(draft.setting, plan, place, stage, shards))
            for stage, place in zip(template.stages, template.layout.places, strict=True)
        ),
        microbatches=group.microbatches,
        microbatch_size=template.layout.microbatch_size,
        sends=template.sends,
    )


def stage_update_ms(setting: Setting, plan: Plan, place: ChipClass, stage: Stage, shards: int) -> float:
    """Time the optimizer's step of a stage, worked out once."""
    key = ("update", place.name, stage.first_layer, stage.end_layer, stage.tp, shards)
    if key not in setting.tables:
        kinds = tuple(setting.kind(unit) for unit in plan.held_units(stage))
        setting.tables[key] = update_ms(setting, place, kinds, Way(tp=stage.tp, cp=stage.cp, ep=stage.ep), shards)
    time_ms: float = setting.tables[key]
    return time_ms


def make_exchanges(draft: Draft, plan: Plan, owners: Sequence[int]) -> tuple[tuple[Exchange, ...], list[Wire]]:
    """Make the gradient exchange of every unit that more than one stage holds, and the wires they take.

    owners: the group's index of each replica shown.
    """
    held = [holding_stages(plan, group) for group in draft.groups]
    rings: dict[object, Ring | None] = {}
    exchanges = []
    for unit in draft.setting.shape.units:
        spots = tuple(tuple(stages[unit]) for stages in held)
        if spots not in rings:
            rings[spots] = make_ring(draft, spots, owners)
        ring = rings[spots]
        if ring is not None:
            exchanges.append(ring.exchange(unit, sum(gradient_bytes(draft.setting, unit)), draft.zero_stage))
    return tuple(exchanges), [ring.wire for ring in rings.values() if ring is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Who exchanges some units with whom, and over which wire. count: all holders, shown or not."""

    wire: Wire
    count: int
    sites: int
    members: tuple[tuple[int, int], ...]

    def exchange(self, unit: int, gradient_bytes: float, zero_stage: int) -> Exchange:
        """Make a unit's exchange; with ZeRO-1 half goes before the update and half after."""
        halves = 2 if zero_stage else 1
        payload_bytes = ring_bytes(self.count, gradient_bytes) / halves
        return Exchange(
            unit=unit,
            members=self.members,
            wire=self.wire.name,
            wire_bytes=payload_bytes,
            gather_bytes=payload_bytes if zero_stage else 0.0,
            hops=-(-ring_hops(self.count, self.sites) // halves),
        )


def make_ring(draft: Draft, spots: Sequence[tuple[int, ...]], owners: Sequence[int]) -> Ring | None:
    """Make the ring of all who hold some units, or None for a single holder.

    spots: the stages that hold them, by group. owners: the group's index of each replica shown.
    """
    count = sum(group.count * len(at) for group, at in zip(draft.groups, spots, strict=True))
    if count < 2:
        return None
    holders = [holder for group, at in zip(draft.groups, spots, strict=True) for holder in holders_of(group, at)]
    return Ring(
        wire=ring_wire(holders, draft.links),
        count=count,
        sites=len({holder.chip_class.site for holder in holders}),
        members=tuple((r, s) for r, owner in enumerate(owners) for s in spots[owner]),
    )


def holding_stages(plan: Plan, group: Group) -> Mapping[int, list[int]]:
    """List for each unit the stages of a group's replicas that hold it."""
    stages: dict[int, list[int]] = {}
    for index, stage in enumerate(group.template.stages):
        for unit in plan.held_units(stage):
            stages.setdefault(unit, []).append(index)
    return stages


def holders_of(group: Group, stages: Iterable[int]) -> list[Holder]:
    """Describe who holds a unit in a group."""
    layout = group.template.layout
    of_class = {chip_class.name: 0 for chip_class, _ in layout.runs}
    for chip_class, count in layout.runs:
        of_class[chip_class.name] += count
    places = [layout.places[stage] for stage in stages]
    return [Holder(chip_class=place, tp=layout.tp, class_stages=of_class[place.name]) for place in places]


def barrier_ms(wires: Iterable[Wire], ranks: int) -> float:
    """Time the all-reduce of the gradient norm; nothing with a single rank."""
    return BARRIER_START_MS + 2 * max((wire.one_way_ms for wire in wires), default=0.0) if ranks > 1 else 0.0


def unique(wires: Iterable[Wire]) -> tuple[Wire, ...]:
    """Keep one wire of each name, in order."""
    return tuple({wire.name: wire for wire in wires}.values())
