"""Which offers a job would have, best first: by its objective, the best few bettered, then one of each other choice.

Must not know how drafts are found or timed.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.plan.search.bettering import improved, plainest, walked
from argosy.plan.search.fit import whole_parts
from argosy.plan.search.narrower import narrower
from argosy.plan.search.offers import Offer, may_win, polished
from argosy.plan.search.resizing import resized
from argosy.plan.search.search import Search

GOALS = ("fastest", "cheapest")
ALTERNATIVES_MAX = 6
RESIZED_MAX, IMPROVED_MAX, WALKED_MAX, POLISHED_MAX = 2, 4, 2, 2
# Of more replicas than this no walk goes as if another schedule ran: where it ends makes less of a difference.
RESCHEDULED_MAX = 32
# Bettering makes no plan faster by more than this that is the best in the end.
HOPEFUL = 1.25


def chosen_offers(
    search: Search, job: Job, classes: Sequence[ChipClass], offers: Sequence[Offer], seconds_left: float | None
) -> list[Offer]:
    """Give the best offer for a job, then the best of other choices.

    The best few for each goal are bettered whatever the job's own, so that none is beaten on its own ground by what is
    found for another. classes: all that the job could use. seconds_left: until the objective's deadline.
    """
    if job.objective.goal != "fastest":
        ranked = by_rank(job, offers, seconds_left)
        starts = [ranked[0], *different(ranked, ranked[0])][:RESIZED_MAX]
        offers = [*offers, *resized(search, job, starts, classes, lambda one: rank(job, one, seconds_left))]
    goals = [replace(job, objective=replace(job.objective, goal=goal)) for goal in GOALS]
    offers = [*offers, *narrower(search, job, by_rank(goals[0], offers, seconds_left))]
    orders = [by_rank(asked, offers, seconds_left) for asked in goals]
    first = each_once(offer for order in orders for offer in unlike(order)[:IMPROVED_MAX])
    better = [improved(search, job, offer) for offer in promising(job, first)]
    best_ms = min(offer.timed.timeline.step_ms for offer in better)
    own = each_once(offer for order in orders for offer in alone(search, job, classes, order, best_ms))
    better += [improved(search, job, offer) for offer in promising(job, own, best_ms) if offer not in first]
    better += offers
    better += walks(search, goals[0], by_rank(goals[0], better, seconds_left))
    finest = [polished(one) for asked in goals for one in unlike(by_rank(asked, better, seconds_left))[:POLISHED_MAX]]
    best, *others = by_rank(job, [*finest, *better], seconds_left)
    return [plainest(search, best), *different(others, best)]


def walks(search: Search, job: Job, ranked: Sequence[Offer]) -> list[Offer]:
    """Give where walks from the quickest offers of unlike choices of chips end, and what betters the best end.

    From the quickest one goes as if it ran zero-bubble too, or 1F1B where it does, for small fleets. ranked: the
    quickest first.
    """
    quickest, *others = ranked
    other = "1f1b" if quickest.timed.draft.schedule == "zero-bubble" else "zero-bubble"
    starts = promising(job, [quickest, *different(others, quickest)][:WALKED_MAX])
    ends = [walked(search, job, offer) for offer in starts]
    known = any(family.schedule == other for family in search.families)
    if known and quickest.timed.draft.replicas <= RESCHEDULED_MAX:
        ends.append(walked(search, job, quickest, other))
    best = min(ends, key=lambda offer: offer.timed.timeline.step_ms)
    if best.timed.timeline.step_ms < quickest.timed.timeline.step_ms:
        ends.append(improved(search, job, best))
    return ends


def by_rank(job: Job, offers: Sequence[Offer], seconds_left: float | None) -> list[Offer]:
    """Sort offers by a job's objective, the best first."""
    return sorted(offers, key=lambda offer: rank(job, offer, seconds_left))


def each_once(offers: Iterable[Offer]) -> list[Offer]:
    """Keep each offer once, in their order."""
    return list({id(offer): offer for offer in offers}.values())


def promising(job: Job, offers: Sequence[Offer], best_ms: float = math.inf) -> list[Offer]:
    """Leave out what won't become the best: where speed alone counts, offers that are much slower than the best."""
    if job.objective.goal != "fastest":
        return list(offers)
    best_ms = min([best_ms, *(offer.timed.timeline.step_ms for offer in offers)])
    return [offer for offer in offers if offer.timed.timeline.step_ms <= HOPEFUL * best_ms]


def alone(
    search: Search, job: Job, classes: Sequence[ChipClass], ranked: Sequence[Offer], best_ms: float
) -> Iterator[Offer]:
    """Give the first offers on each class alone that may yet beat the best: what would be bettered without others."""
    for part in whole_parts(classes) if len(classes) > 1 else ():
        name = part.chip_class.name
        own = [offer for offer in ranked if list(offer.timed.draft.classes) == [name]]
        if own and may_win(search, job, [part], best_ms):
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
    """Keep the first of offers on like chips with a like schedule that spread experts alike."""
    kinds: dict[object, Offer] = {}
    for offer in ranked:
        draft = offer.timed.draft
        spread = any(group.template.layout.ep > 1 for group in draft.groups)
        kinds.setdefault((offer.kind, draft.schedule, spread), offer)
    return list(kinds.values())
