"""Which offers a job would have, best first: by its objective, the best few bettered, then one of each other choice.

Must not know how drafts are found or timed.
"""

from collections.abc import Iterator, Sequence

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.search.bettering import improved
from argosy.plan.search.bound import plan_of
from argosy.plan.search.fit import whole_parts
from argosy.plan.search.offers import Offer, may_beat, polished
from argosy.plan.search.search import Search

ALTERNATIVES_MAX = 6
IMPROVED_MAX, POLISHED_MAX = 4, 2


def chosen_plans(
    search: Search, job: Job, classes: Sequence[ChipClass], offers: Sequence[Offer], seconds_left: float | None
) -> tuple[Plan, ...]:
    """Give the plan of the best offer for a job, then those of the best of other choices.

    classes: all that the job could use. seconds_left: until the objective's deadline.
    """
    ranked = sorted(offers, key=lambda offer: rank(job, offer, seconds_left))
    first = unlike(ranked)[:IMPROVED_MAX]
    better = [improved(search, job, offer) for offer in first]
    best_ms = min(offer.timed.timeline.step_ms for offer in better)
    better += [improved(search, job, o) for o in alone(search, job, classes, ranked, best_ms) if o not in first]
    ranked = sorted([*better, *ranked], key=lambda offer: rank(job, offer, seconds_left))
    finest = [*map(polished, unlike(ranked)[:POLISHED_MAX]), ranked[0]]
    best = min(finest, key=lambda offer: rank(job, offer, seconds_left))
    parts = whole_parts(classes)
    return tuple(plan_of(search, job, offer, parts) for offer in [best, *different(ranked, best)])


def alone(
    search: Search, job: Job, classes: Sequence[ChipClass], ranked: Sequence[Offer], best_ms: float
) -> Iterator[Offer]:
    """Give the first offers on each class alone that may yet beat the best: what would be bettered without others."""
    for part in whole_parts(classes) if len(classes) > 1 else ():
        name = part.chip_class.name
        own = [offer for offer in ranked if list(offer.timed.draft.classes) == [name]]
        if own and (job.objective.goal != "fastest" or may_beat(search, job, [part], best_ms)):
            yield from unlike(own)[:IMPROVED_MAX]


def rank(job: Job, offer: Offer, seconds_left: float | None) -> tuple[float, float, float]:
    """Order offers by the job's objective: lower is better.

    Fastest: by step, then by chips. Else by cost (unknown prices last), among those that end within the job's time
    limit and before the deadline; if none does, the fastest.
    """
    timed = offer.timed
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


def unlike(ranked: Sequence[Offer]) -> list[Offer]:
    """Keep the first of offers on like chips with a like schedule."""
    kinds: dict[object, Offer] = {}
    for offer in ranked:
        draft = offer.timed.draft
        kinds.setdefault((offer.kind, draft.schedule, draft.zero_stage), offer)
    return list(kinds.values())
