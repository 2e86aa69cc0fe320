"""A draft: replicas of one or more templates, their micro-batches dealt. `search.plans` makes its plan.

Like replicas are kept as one group with a count, so that a draft of thousands of replicas is timed like one of a few.
Must not know which draft is better.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.grid import Family
from argosy.plan.pipelines.shares import Kind, deal
from argosy.plan.pipelines.templates import Template, make_template, rejoined


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
