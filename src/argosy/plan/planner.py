"""The planner: from a job, a model and classes of chips to plans, best first.

Chooses among timed offers by the job's objective. Must not know how drafts are found or timed.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.search.bound import plan_of
from argosy.plan.search.fit import never_fits, usable_classes
from argosy.plan.search.offers import Offer, Progress, gather, polished
from argosy.plan.search.question import Form, Measured, make_search

ALTERNATIVES_MAX = 6
POLISHED_MAX = 2
MISSING_SHOWN = 5


def plan_job(
    job: Job,
    shape: ModelShape,
    classes: Sequence[ChipClass],
    long_links: Sequence[LongLink],
    *,
    fleet: str = "",
    seconds_left: float | None = None,
    progress: Progress = lambda _done, _of: None,
    measured: Measured | None = None,
    runnable: bool = False,
    form: Form | None = None,
) -> tuple[Plan, ...]:
    """Plan a job; the first plan is the chosen one, the others are the best of other choices.

    seconds_left: until the objective's deadline, for this room knows no clock. progress: told how far the search is;
    what it raises ends the search. measured: profiles; a chip that has one is planned by it alone. runnable: only
    plans that Argosy's own trainer runs; form: only plans that another framework runs. Raises NeverFitsError when
    nothing fits, and BadInputError for chips that the fleet does not have.
    """
    usable, refusals = usable_classes(job, sorted(classes, key=lambda chip_class: chip_class.name))
    search = make_search(job, shape, long_links, fleet, measured, runnable=runnable, form=form)
    offers = gather(search, job, usable, progress)
    if not offers:
        search.crowded = True
        offers = gather(search, job, usable, progress)
    if not offers:
        missing = list(search.base.setting.missing)[:MISSING_SHOWN]
        raise never_fits(search, job, usable, [*refusals, *missing])
    ranked = sorted(offers, key=lambda offer: rank(job, offer, seconds_left))
    best = min(map(polished, ranked[:POLISHED_MAX]), key=lambda offer: rank(job, offer, seconds_left))
    chosen = [best, *different(ranked, best)]
    return tuple(plan_of(search, job, offer) for offer in chosen)


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
