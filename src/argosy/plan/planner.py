"""The planner: from a job, a model and classes of chips to plans, best first.

Must not know how drafts are found, timed or chosen.
"""

from collections.abc import Sequence
from typing import Unpack

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape, check_trainable
from argosy.plan.search.answers import chosen_plans
from argosy.plan.search.fit import never_fits, usable_classes
from argosy.plan.search.offers import Progress, gather
from argosy.plan.search.question import Asked, make_search

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
    **asked: Unpack[Asked],
) -> tuple[Plan, ...]:
    """Plan a job; the first plan is the chosen one, the others are the best of other choices.

    seconds_left: until the objective's deadline, for this room knows no clock. progress: told how far the search is;
    what it raises ends the search. asked: the terms. Raises NeverFitsError when nothing fits, and BadInputError for
    chips that the fleet does not have and, where only plans for the trainer are asked for, a model it can't run.
    """
    if asked.get("runnable"):
        check_trainable(shape, "model")
    usable, refusals = usable_classes(job, sorted(classes, key=lambda chip_class: chip_class.name))
    search = make_search(job, shape, long_links, fleet, **asked)
    offers = gather(search, job, usable, progress)
    if not offers:
        search.crowded = True
        offers = gather(search, job, usable, progress)
    if not offers:
        missing = list(search.base.setting.missing)[:MISSING_SHOWN]
        raise never_fits(search, job, usable, [*refusals, *missing])
    return chosen_plans(search, job, usable, offers, seconds_left)
