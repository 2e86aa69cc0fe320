"""A whole plan out of an offer, with all that is told of it: the reference it is held against, and the proven bound.

Must not choose between plans.
"""

from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.search.least import least_step_ms
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import predicted
from argosy.plan.search.reference import reference
from argosy.plan.search.search import Search


def plan_of(search: Search, job: Job, offer: Offer) -> Plan:
    """Make the whole plan of an offer, with its prediction."""
    least_ms = least_step_ms(search.base.setting, offer.parts, job.train.global_batch_size, search.freedom)
    return predicted(offer.timed, reference(search, job, offer), least_ms)
