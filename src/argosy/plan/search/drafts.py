"""A draft: replicas of one or more templates, their micro-batches dealt; and the Plan that it stands for.

Like replicas are kept as one group with a count, so that a draft of thousands of replicas is timed like one of a few.
Must not know which draft is better.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.plan import Exchange, Plan, Replica, Wire
from argosy.plan.costs.rings import Held, Ring, gradient_bytes, holder_of, make_ring
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.grid import Family
from argosy.plan.pipelines.shares import Kind, deal
from argosy.plan.pipelines.stages import holding_stages, updated_stages
from argosy.plan.pipelines.templates import Template, make_template, rejoined

# The all-reduce of the gradient norm: there and back over the longest wire, and its start.
BARRIER_START_MS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Like replicas: count replicas of a template, each with so many micro-batches."""

    template: Template
    count: int
    microbatches: int


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Groups of replicas that together take the global batch.

    hierarchical: gradients that cross sites are summed inside each site first.
    """

    setting: Setting
    model: str
    fleet: str
    groups: tuple[Group, ...]
    schedule: str
    zero_stage: int
    links: tuple[LongLink, ...]
    hierarchical: bool = False

    @property
    def replicas(self) -> int:
        """How many replicas there are."""
        return sum(group.count for group in self.groups)

    @property
    def sequences(self) -> int:
        """How many sequences they take in a step."""
        return sum(g.count * g.microbatches * g.template.layout.sequences for g in self.groups)

    @property
    def classes(self) -> dict[str, ChipClass]:
        """Classes in use by name, in the order of the groups."""
        return {run.chip_class.name: run.chip_class for group in self.groups for run in group.template.layout.runs}

    @property
    def sites(self) -> set[str]:
        """Sites in use."""
        return {chip_class.site for chip_class in self.classes.values()}

    @property
    def chips(self) -> dict[str, int]:
        """Chips in use of each class."""
        used = dict.fromkeys(self.classes, 0)
        for group in self.groups:
            for name, chips in group.template.layout.chips.items():
                used[name] += group.count * chips
        return used

    @cached_property
    def sketched(self) -> Plan:
        """The plan with one replica of each group."""
        return make_plan(self, [1] * len(self.groups))

    @cached_property
    def shards(self) -> tuple[int, ...]:
        """Over how many ranks each group shards what every EP and CP rank holds, with ZeRO.

        Never over a long link: over all in the site that hold the same. Of a pipeline through several sites only like
        ones surely hold the same in each.
        """
        if not self.zero_stage:
            return (1,) * len(self.groups)
        copies: Counter[object] = Counter()
        homes: list[object] = []
        for group in self.groups:
            layout, cut = group.template.layout, group.template.cut
            homes.append(layout.sites if len(layout.sites) == 1 else (layout.shape, cut.ends))
            copies[homes[-1]] += group.count * layout.cp * layout.ep
        return tuple(copies[home] for home in homes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What may become a draft: templates with counts. least_ms: what they take by the estimate of their choices."""

    choice: tuple[tuple[Template, int], ...]
    family: Family
    least_ms: float


def make_draft(base: Draft, templates: Sequence[tuple[Template, int]], batch: int, schedule: str = "") -> Draft | None:
    """Deal a global batch (in sequences) over counts of templates.

    None where it can't be dealt, or where what the schedule holds would not fit. schedule: empty takes what the
    templates were made for, or GPipe where a replica would get too few micro-batches.
    """
    kinds = [kind_of(template, count, rounds=base.setting.program.torch_rounds) for template, count in templates]
    dealt = deal(kinds, batch)
    if not dealt or schedule == "gpipe":
        dealt = deal([replace(kind, at_least=kind.multiple) for kind in kinds], batch)
    if not dealt:
        return None
    groups = tuple(
        Group(template=template, count=count, microbatches=microbatches)
        for (template, _), shares in zip(templates, dealt, strict=True)
        for microbatches, count in shares
    )
    wanted = schedule or groups[0].template.layout.schedule
    if wanted != "gpipe" and any(g.microbatches < g.template.layout.depth for g in groups):
        if schedule or wanted != "1f1b":
            return None
        wanted = "gpipe"
    return refitted(replace(base, groups=groups, schedule=wanted))


def kind_of(template: Template, count: int, *, rounds: bool = False) -> Kind:
    """Say how fast so many replicas of a template are. rounds: zero-bubble is dealt in rounds (`costs.program`)."""
    layout = template.layout
    return Kind(
        pace_ms=template.pace_ms,
        fill_ms=template.fill_ms,
        count=count,
        sequences=layout.sequences,
        at_most=layout.microbatches if layout.schedule == "gpipe" else 1_000_000_000,
        multiple=layout.depth if layout.schedule == "interleaved" else 1,
        round_of=layout.depth if rounds and layout.schedule == "zero-bubble" else 0,
        at_least=1 if layout.schedule == "gpipe" else layout.depth,
    )


def refitted(draft: Draft) -> Draft | None:
    """Cut again for the schedule, micro-batches and shards there really are, and the share of long links.

    None if a stage does not fit.
    """
    layouts = [
        replace(
            group.template.layout,
            schedule=draft.schedule,
            microbatches=group.microbatches,
            count=group.count,
            zero_stage=draft.zero_stage,
            shards=shards,
        )
        for group, shards in zip(draft.groups, draft.shards, strict=True)
    ]
    groups = []
    for group, layout in zip(draft.groups, layouts, strict=True):
        template = make_template(draft.setting, layout, draft.links)
        if template is None:
            return None
        groups.append(replace(group, template=rejoined(draft.setting, template, draft.links, layouts)))
    again = replace(draft, groups=tuple(groups))
    # Other cuts may leave fewer that hold the same.
    return again if again.shards == draft.shards else None


def sketch(draft: Draft) -> Plan:
    """Make a plan with one replica of each group: it takes as long as the whole, for like replicas do like things.

    Its global_batch_size is that of the replicas shown.
    """
    return draft.sketched


def whole(draft: Draft) -> Plan:
    """Make the plan of all replicas."""
    return make_plan(draft, [group.count for group in draft.groups])


def make_plan(draft: Draft, counts: Sequence[int]) -> Plan:
    """Make a plan that shows so many replicas of each group; bytes and hops are those of the draft."""
    plan = bare_plan(draft)
    replicas: list[Replica] = []
    owners: list[int] = []
    for index, (group, count, shards) in enumerate(zip(draft.groups, counts, draft.shards, strict=True)):
        replicas += [make_replica(draft, plan, group, shards)] * count
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


def make_exchanges(draft: Draft, plan: Plan, owners: Sequence[int]) -> tuple[tuple[Exchange, ...], list[Wire]]:
    """Make the gradient exchange of every unit that more than one place holds, and the wires they take.

    owners: the group's index of each replica shown.
    """
    held = [holding_stages(draft.setting, plan, group.template) for group in draft.groups]
    kinds = [group.template.layout.run_numbers for group in draft.groups]
    depths = [group.template.layout.depth for group in draft.groups]
    rings: dict[object, Ring | None] = {}
    alike: dict[object, Exchange] = {}
    unlike: dict[object, Exchange] = {}
    exchanges = []
    for unit in draft.setting.shape.units:
        spots = tuple(stages[unit] for stages in held)
        # Places of the same runs go round rings that differ in their members alone.
        runs = tuple(
            tuple(numbers[s % depth] for s in at) for numbers, depth, at in zip(kinds, depths, spots, strict=True)
        )
        if runs not in rings:
            rings[runs] = ring_of(draft, spots, owners)
        ring, kind = rings[runs], draft.setting.kind(unit)
        if ring is None:
            continue
        if (spots, kind) not in alike:
            if (runs, kind) not in unlike:
                size = gradient_bytes(draft.setting, unit, ring.tp)
                unlike[runs, kind] = ring.exchange(unit, size, draft.zero_stage)
            members = tuple((r, s) for r, owner in enumerate(owners) for s in spots[owner])
            alike[spots, kind] = among(unlike[runs, kind], members)
        exchanges.append(replace(alike[spots, kind], unit=unit))
    return tuple(exchanges), [wire for ring in rings.values() if ring for wire in ring.wires]


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
