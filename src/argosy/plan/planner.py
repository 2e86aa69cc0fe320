"""The planner: from a job, a model and classes of chips to plans, best first.

Gathers drafts over sets of classes, lets the timeline time the promising ones, deals again what the timeline shows to
be uneven, and holds the winner against its parts alone. Must not know how drafts are found or timed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.cost import Setting, efficiency
from argosy.plan.drafts import Draft, Group, refitted
from argosy.plan.fit import choose_parts, never_fits, usable_classes
from argosy.plan.predict import Bound, Timed, predicted, time_draft
from argosy.plan.search import MICROBATCH_SIZES, RECOMPUTES, Part, Search

TIMED_FULL, TIMED_OTHERS, TIMED_ALONE = 12, 4, 3
CLASSES_IN_ALL_SETS = 4
ALTERNATIVES_MAX = 6
POLISH_ROUNDS, POLISH_GROUPS_MAX, POLISH_REPLICAS_MAX = 6, 6, 64
BOUND_ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A timed draft and the parts that it was given to use."""

    timed: Timed
    parts: tuple[Part, ...]

    @property
    def kind(self) -> object:
        """What makes two offers different choices: the classes, and which of them share a pipeline."""
        return frozenset(frozenset(c.name for c, _ in g.template.layout.runs) for g in self.timed.draft.groups)


def plan_job(
    job: Job,
    shape: ModelShape,
    classes: Sequence[ChipClass],
    long_links: Sequence[LongLink],
    *,
    fleet: str = "",
    seconds_left: float | None = None,
) -> tuple[Plan, ...]:
    """Plan a job: the first plan is the chosen one, the others are the best of other choices (single classes, sites)

    seconds_left: until the objective's deadline, for this room knows no clock. Raises NeverFitsError when nothing fits,
    and BadInputError for chips that the fleet does not have.
    """
    usable, refusals = usable_classes(job, classes)
    setting = Setting(shape, job.train.sequence_length, job.train.precision)
    base = Draft(
        setting=setting,
        model=job.model,
        fleet=fleet,
        groups=(),
        schedule="",
        zero_stage=0,
        links=tuple(long_links),
    )
    sizes = [job.train.microbatch_size] if job.train.microbatch_size else MICROBATCH_SIZES
    recomputes = [job.train.recompute] if job.train.recompute else RECOMPUTES
    search = Search(base, sizes, recomputes)
    offers = gather(search, job, usable)
    if not offers:
        raise never_fits(search, job, usable, refusals)
    ranked = sorted(offers, key=lambda offer: rank(job, offer.timed, seconds_left))
    best = replace(ranked[0], timed=polished(ranked[0].timed))
    chosen = [best, *different(ranked, best)]
    return tuple(predicted(offer.timed, bound(search, job, offer)) for offer in chosen)


def gather(search: Search, job: Job, classes: Sequence[ChipClass]) -> list[Offer]:
    """Time the most promising drafts of every set of classes."""
    offers = []
    for members in class_sets(classes):
        for parts in choose_parts(job, members):
            limit = TIMED_FULL if len(members) == len(classes) else TIMED_OTHERS
            for estimate in search.estimates(parts, job.train.global_batch_size)[:limit]:
                if sum(estimate.draft.chips.values()) >= job.chips.minimum:
                    offers.append(Offer(timed=time_draft(estimate.draft), parts=parts))
    return offers


def class_sets(classes: Sequence[ChipClass]) -> list[tuple[ChipClass, ...]]:
    """List the sets of classes to try: all sets of a few, else all together, by site, and one by one."""
    if len(classes) <= CLASSES_IN_ALL_SETS:
        sizes = range(len(classes), 0, -1)
        return [members for size in sizes for members in itertools.combinations(classes, size)]
    sites = dict.fromkeys(chip_class.site for chip_class in classes)
    sets = [tuple(classes), *(tuple(c for c in classes if c.site == site) for site in sites), *((c,) for c in classes)]
    return list({tuple(c.name for c in members): members for members in sets}.values())


def rank(job: Job, timed: Timed, seconds_left: float | None) -> tuple[float, float, float]:
    """Order offers by the job's objective: lower is better.

    Fastest: by step, then by chips. Else by cost (unknown prices last), among those that end within the job's time
    limit and before the deadline; if none does, the fastest.
    """
    step_ms = timed.timeline.step_ms
    if job.objective.goal == "fastest":
        return 0.0, step_ms, float(sum(timed.draft.chips.values()))
    limits = [limit for limit in (job.time_limit_s, seconds_left) if limit is not None]
    if any(job.train.steps * step_ms / 1e3 > limit for limit in limits):
        return 1.0, step_ms, 0.0
    return 0.0, float("inf") if timed.cost is None else timed.cost, step_ms


def different(ranked: Sequence[Offer], best: Offer) -> list[Offer]:
    """Take the best offer of each other choice, in their order."""
    kinds: dict[object, Offer] = {}
    for offer in ranked:
        if offer.kind != best.kind:
            kinds.setdefault(offer.kind, offer)
    return list(kinds.values())[:ALTERNATIVES_MAX]


def polished(timed: Timed) -> Timed:
    """Move single micro-batches between replicas while the timeline says that it helps; for small fleets."""
    if timed.draft.replicas > POLISH_REPLICAS_MAX:
        return timed
    for _ in range(POLISH_ROUNDS):
        groups = timed.draft.groups
        if len(groups) > POLISH_GROUPS_MAX:
            break
        tries = [refitted(moved(timed.draft, a, b)) for a, b in itertools.permutations(range(len(groups)), 2)]
        better = min((time_draft(d) for d in tries if d), key=lambda t: t.timeline.step_ms, default=timed)
        if better.timeline.step_ms >= timed.timeline.step_ms:
            break
        timed = better
    return timed


def moved(draft: Draft, giver: int, taker: int) -> Draft:
    """Move one micro-batch from one replica of a group to one of another, as far as the schedule allows."""
    groups: list[Group] = []
    for index, group in enumerate(draft.groups):
        change = (index == taker) - (index == giver)
        fewest = len(group.template.stages) if draft.schedule == "1f1b" else 1
        if change and group.microbatches + change < fewest:
            return draft
        if change and group.count > 1:
            groups.append(replace(group, count=group.count - 1))
        groups.append(replace(group, count=1 if change else group.count, microbatches=group.microbatches + change))
    return replace(draft, groups=tuple(groups))


def bound(search: Search, job: Job, offer: Offer) -> Bound:
    """Hold an offer against the sum of what each of its classes would do alone at its best, the batch shared by speed.

    A class whose chips can't hold the model alone counts with the arithmetic speed that this plan gets out of it.
    """
    draft = offer.timed.draft
    parts = [part for part in offer.parts if part.chip_class.name in draft.classes]
    if len(parts) == 1 and len(draft.classes) == 1:
        alone = alone_tokens_per_second(search, parts[0], job.train.global_batch_size)
        best = max(alone or 0.0, offer.timed.tokens_per_second)
        return Bound(tokens_per_second=best, name=f"the best plan on {parts[0].chip_class.name} alone")
    speeds = [search.power(part) for part in parts]
    for _ in range(BOUND_ROUNDS):
        found = []
        for part, speed in zip(parts, speeds, strict=True):
            share = batch_share(search, job.train.global_batch_size, speed / sum(speeds))
            found.append(alone_tokens_per_second(search, part, share) or ideal_tokens_per_second(search, part))
        speeds = found
    texts = [f"{part.chip_class.name} {speed:,.0f}" for part, speed in zip(parts, speeds, strict=True)]
    return Bound(tokens_per_second=sum(speeds), name="the parts on their own: " + " + ".join(texts) + " tokens/s")


def batch_share(search: Search, batch: int, share: float) -> int:
    """Round a share of a batch to whole micro-batches of the smallest size."""
    size = min(search.sizes)
    return max(1, round(batch * share / size)) * size


def alone_tokens_per_second(search: Search, part: Part, batch: int) -> float | None:
    """Give the throughput of the best plan on one class alone; None where the model does not fit on it."""
    estimates = search.estimates([part], batch)[:TIMED_ALONE]
    return max((time_draft(estimate.draft).tokens_per_second for estimate in estimates), default=None)


def ideal_tokens_per_second(search: Search, part: Part) -> float:
    """Give what a part would do without any bubble or exchange, for one that can't hold the model alone."""
    setting = search.base.setting
    return search.power(part) * 1e12 * efficiency(part.chip_class) / setting.flops_per_token
