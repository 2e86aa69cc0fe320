"""A whole plan out of an offer, with all that is told of it: the reference it is held against, and the proven bound.

Must not choose between plans.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.least import Caps, least_step_ms
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import predicted
from argosy.plan.search.reference import reference
from argosy.plan.search.search import Search


def held_alone(search: Search, plan: Plan, parts: Sequence[Part]) -> Plan:
    """Hold a plan against the bound on the chips that it uses, whatever else it could have had. parts: all of those."""
    chips = Counter[str]()
    for replica in plan.replicas:
        for stage in plan.places(replica):
            chips[stage.chip_class] += stage.width
    used = [replace(part, chips=chips[part.chip_class.name]) for part in parts if chips[part.chip_class.name]]
    least_ms = least_step_ms(search.base.setting, used, search.batch, search.freedom)
    if plan.prediction is None or least_ms <= 0:
        return plan
    return replace(plan, prediction=replace(plan.prediction, gap=plan.prediction.step_ms / least_ms - 1))


def plan_of(search: Search, job: Job, offer: Offer, parts: Sequence[Part]) -> Plan:
    """Make the whole plan of an offer, with its prediction. parts: all chips that the job could use."""
    caps = Caps(chips=job.chips.maximum, power_kw=job.objective.power_kw)
    least_ms = least_step_ms(search.base.setting, parts, job.train.global_batch_size, search.freedom, caps)
    return predicted(offer.timed, reference(search, job, offer), least_ms)
