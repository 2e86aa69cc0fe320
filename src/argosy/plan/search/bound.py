"""A whole plan out of an offer, with all that is told of it: the reference it is held against, and the proven bound.

Must not choose between plans.
"""

from collections.abc import Sequence

from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.least import Caps, least_step_ms
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import predicted
from argosy.plan.search.reference import reference
from argosy.plan.search.search import Search


def plan_of(search: Search, job: Job, offer: Offer, parts: Sequence[Part]) -> Plan:
    """Make the whole plan of an offer, with its prediction. parts: all chips that the job could use."""
    caps = Caps(chips=job.chips.maximum, power_kw=job.objective.power_kw)
    least_ms = least_step_ms(search.base.setting, parts, job.train.global_batch_size, search.freedom, caps)
    return predicted(offer.timed, reference(search, job, offer), least_ms)
