"""Offers: drafts that the timeline has timed, for every set of classes worth trying.

The promising drafts of each set are timed; the winner's micro-batches are dealt again where the timeline shows them
uneven. Must not know what a job prefers.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.drafts import Draft, Group, refitted
from argosy.plan.fit import choose_parts
from argosy.plan.predict import Timed, time_draft
from argosy.plan.grid import Part
from argosy.plan.search import Search

TIMED_FULL, TIMED_OTHERS = 12, 4
CLASSES_IN_ALL_SETS = 4
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
    """Time the most promising drafts of every set of classes."""
    offers = []
    choices = [parts for members in class_sets(classes) for parts in choose_parts(job, members)]
    batch, chips_min = job.train.global_batch_size, job.chips.minimum
    for done, parts in enumerate(choices):
        progress(done, len(choices))
        limit = TIMED_FULL if len(parts) == len(classes) else TIMED_OTHERS
        found = search.estimates(parts, batch, limit, mix=limit == TIMED_FULL, chips_min=chips_min)
        offers += [Offer(timed=time_draft(estimate.draft), parts=parts) for estimate in found]
    progress(len(choices), len(choices))
    return offers


def class_sets(classes: Sequence[ChipClass]) -> list[tuple[ChipClass, ...]]:
    """List the sets of classes to try: all sets of a few, else all together, by site, and one by one."""
    if len(classes) <= CLASSES_IN_ALL_SETS:
        sizes = range(len(classes), 0, -1)
        return [members for size in sizes for members in itertools.combinations(classes, size)]
    sites = dict.fromkeys(chip_class.site for chip_class in classes)
    sets = [tuple(classes), *(tuple(c for c in classes if c.site == site) for site in sites), *((c,) for c in classes)]
    return list({tuple(c.name for c in members): members for members in sets}.values())


def polished(offer: Offer) -> Offer:
    """Move single micro-batches between replicas while the timeline says that it helps; for small fleets."""
    timed = offer.timed
    for _ in range(POLISH_ROUNDS):
        groups = len(timed.draft.groups)
        if timed.draft.replicas > POLISH_REPLICAS_MAX or groups > POLISH_GROUPS_MAX:
            break
        tries = [refitted(moved(timed.draft, a, b)) for a, b in itertools.permutations(range(groups), 2)]
        better = min((time_draft(d) for d in tries if d), key=lambda t: t.timeline.step_ms, default=timed)
        if better.timeline.step_ms >= timed.timeline.step_ms:
            break
        timed = better
    return replace(offer, timed=timed)


def moved(draft: Draft, giver: int, taker: int) -> Draft:
    """Move one micro-batch from one replica of a group to one of another, as far as the schedule allows."""
    groups: list[Group] = []
    for index, group in enumerate(draft.groups):
        change = (index == taker) - (index == giver)
        fewest = 1 if draft.schedule == "gpipe" else group.template.layout.depth
        if change and (draft.schedule == "interleaved" or group.microbatches + change < fewest):
            return draft
        if change and group.count > 1:
            groups.append(replace(group, count=group.count - 1))
        groups.append(replace(group, count=1 if change else group.count, microbatches=group.microbatches + change))
    return replace(draft, groups=tuple(groups))
