"""Offers: drafts that the timeline has timed, for every set of classes worth trying.

The promising drafts of each set are timed; the winner's micro-batches are dealt again where the timeline shows them
uneven. Must not know what a job prefers.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.drafts import Draft, Group, kind_of
from argosy.plan.search.fit import choose_parts
from argosy.plan.search.least import least_step_ms
from argosy.plan.search.predict import Timed, timed_again
from argosy.plan.search.search import Search

TIMED_FULL, TIMED_OTHERS = 12, 3
NEAR_BEST = 1.05
CLASSES_IN_ALL_SETS, SITES_IN_ALL_SETS = 4, 4
POLISH_ROUNDS, POLISH_GROUPS_MAX, POLISH_REPLICAS_MAX = 6, 6, 64


Progress = Callable[[int, int], None]
"""Told how many choices of chips were tried, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A timed draft and the parts that it was given to use."""

    timed: Timed
    parts: tuple[Part, ...]

    @property
    def kind(self) -> object:
        """What makes two offers different choices: the classes, and which of them share a pipeline."""
        return frozenset(frozenset(r.chip_class.name for r in g.template.layout.runs) for g in self.timed.draft.groups)


def gather(search: Search, job: Job, classes: Sequence[ChipClass], progress: Progress) -> list[Offer]:
    """Time the most promising drafts of every set of classes.

    All classes together come first and get most of the effort, and so does a part of them that seems to do as well,
    and a single class as long as nothing proves that it can't: a fleet is not planned worse than one of its classes.
    """
    search.joined = search.crowded or len(classes) <= CLASSES_IN_ALL_SETS
    offers: list[Offer] = []
    best_ms = float("inf")
    sets = [sizes for members in class_sets(classes) if (sizes := choose_parts(job, members))]
    choices = [(parts, parts is sizes[0]) for sizes in sets for parts in sizes]
    batch, chips_min = job.train.global_batch_size, job.chips.minimum
    for done, (parts, most) in enumerate(choices):
        progress(done, len(choices))
        if not most and not may_win(search, job, parts, best_ms):
            continue
        found = []
        full = len(parts) == len(classes) or (len(parts) == 1 and may_beat(search, job, parts, best_ms))
        if not full:
            found = search.estimates(parts, batch, TIMED_OTHERS, chips_min=chips_min)
        if full or (found and found[0].step_ms <= NEAR_BEST * best_ms):
            found = search.estimates(parts, batch, TIMED_FULL, mix=True, chips_min=chips_min)
        timed = [estimate.timed for estimate in found]
        best_ms = min([best_ms, *(one.timeline.step_ms for one in timed)])
        offers += [Offer(timed=one, parts=parts) for one in timed]
    progress(len(choices), len(choices))
    return offers + smaller(search, job, [sizes[0] for sizes in sets], best_ms)


def smaller(search: Search, job: Job, choices: Sequence[tuple[Part, ...]], best_ms: float) -> list[Offer]:
    """Time a few nodes of each class and each site, as far as a bound on their work lets them beat the best so far.

    Where networks are slow, one node may be faster than all.
    """
    batch, chips_min = job.train.global_batch_size, job.chips.minimum
    offers: list[Offer] = []
    unlike = {sizes_of(some): some for parts in choices for some in prefixes(parts)}
    for parts in unlike.values():
        if sum(part.chips for part in parts) < chips_min:
            continue
        if not may_win(search, job, parts, best_ms):
            continue
        timed = [e.timed for e in search.estimates(parts, batch, TIMED_OTHERS, chips_min=chips_min)]
        best_ms = min([best_ms, *(one.timeline.step_ms for one in timed)])
        offers += [Offer(timed=one, parts=parts) for one in timed]
    return offers


def may_win(search: Search, job: Job, parts: Sequence[Part], best_ms: float) -> bool:
    """Tell whether a job might want fewer chips than it may have: where speed alone counts, if they may be faster."""
    return job.objective.goal != "fastest" or may_beat(search, job, parts, best_ms)


def may_beat(search: Search, job: Job, parts: Sequence[Part], best_ms: float) -> bool:
    """Tell whether a step on some chips might take less than so long, for all that is proven."""
    return least_step_ms(search.base.setting, parts, job.train.global_batch_size, search.freedom) < best_ms


def prefixes(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Give one node of each class of some parts in one site, and half of the nodes; nothing where sites differ."""
    if len({part.chip_class.site for part in parts}) > 1:
        return []
    node = tuple(replace(part, chips=min(part.chips, part.chip_class.chips_per_node)) for part in parts)
    half = tuple(
        replace(part, chips=max(one.chips, part.chips // 2 // one.chips * one.chips))
        for part, one in zip(parts, node, strict=True)
    )
    return [some for some in (half, node) if sizes_of(some) != sizes_of(parts)]


def sizes_of(parts: Sequence[Part]) -> tuple[tuple[str, int], ...]:
    """Give the chips of each class by name."""
    return tuple((part.chip_class.name, part.chips) for part in parts)


def class_sets(classes: Sequence[ChipClass]) -> list[tuple[ChipClass, ...]]:
    """List the sets of classes to try: all sets of a few, else those of all sets of sites, and one by one."""
    if len(classes) <= CLASSES_IN_ALL_SETS:
        sizes = range(len(classes), 0, -1)
        return [members for size in sizes for members in itertools.combinations(classes, size)]
    sites = list(dict.fromkeys(chip_class.site for chip_class in classes))
    counts = [*range(len(sites), 0, -1)] if len(sites) <= SITES_IN_ALL_SETS else [len(sites), 1]
    some = [set(members) for count in counts for members in itertools.combinations(sites, count)]
    sets = [*(tuple(c for c in classes if c.site in members) for members in some), *((c,) for c in classes)]
    return list({tuple(c.name for c in members): members for members in sets}.values())


def polished(offer: Offer) -> Offer:
    """Move single micro-batches between replicas while the timeline says that it helps; for small fleets."""
    timed = offer.timed
    for _ in range(POLISH_ROUNDS):
        groups = len(timed.draft.groups)
        if timed.draft.replicas > POLISH_REPLICAS_MAX or groups > POLISH_GROUPS_MAX:
            break
        tries = [timed_again(moved(timed.draft, a, b)) for a, b in itertools.permutations(range(groups), 2)]
        better = min((one for one in tries if one), key=lambda one: one.timeline.step_ms, default=timed)
        if better.timeline.step_ms >= timed.timeline.step_ms:
            break
        timed = better
    return replace(offer, timed=timed)


def moved(draft: Draft, giver: int, taker: int) -> Draft:
    """Move one micro-batch from one replica of a group to one of another, as far as the schedule allows."""
    if draft.groups[giver].template.layout.sequences != draft.groups[taker].template.layout.sequences:
        return draft
    groups: list[Group] = []
    for index, group in enumerate(draft.groups):
        change = (index == taker) - (index == giver)
        takes = group.microbatches + change
        kind = kind_of(group.template, 1, rounds=draft.setting.program.torch_rounds)
        runs = takes > 0 and (draft.schedule == "gpipe" or kind.allowed(takes) == takes)
        if change and not runs:
            return draft
        if change and group.count > 1:
            groups.append(replace(group, count=group.count - 1))
        groups.append(replace(group, count=1 if change else group.count, microbatches=takes))
    return replace(draft, groups=tuple(groups))
