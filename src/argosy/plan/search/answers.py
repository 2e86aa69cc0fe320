"""What a job is answered: whole plans of the offers that were chosen for it, in their order.

Must not choose.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.search.bound import plan_of
from argosy.plan.search.fit import whole_parts
from argosy.plan.search.offers import Offer
from argosy.plan.search.ranking import chosen_offers
from argosy.plan.search.search import Search


def chosen_plans(
    search: Search, job: Job, classes: Sequence[ChipClass], offers: Sequence[Offer], seconds_left: float | None
) -> tuple[Plan, ...]:
    """Give the plan of the best offer for a job, then those of the best of other choices.

    classes: all that the job could use. seconds_left: until the objective's deadline.
    """
    parts = whole_parts(classes)
    return tuple(plan_of(search, job, one, parts) for one in chosen_offers(search, job, classes, offers, seconds_left))
