"""A plan for a part of a fleet, from a search that is kept for many parts: what it worked out serves all of them.

Must not know which parts are wanted.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.bound import plan_of
from argosy.plan.search.fit import choose_parts, whole_parts
from argosy.plan.search.offers import Offer
from argosy.plan.search.search import Search

# So many of the drafts that are likely best are timed.
TIMED = 4


def quick_plan(search: Search, job: Job, classes: Sequence[ChipClass], known: dict[str, ChipClass]) -> Plan | None:
    """Find the fastest plan that uses all of some classes; None where none fits.

    known: the classes as the search knows them, by name, which may have more nodes than are given here.
    """
    for chosen in choose_parts(job, classes)[:1]:
        parts = tuple(Part(chip_class=known[part.chip_class.name], chips=part.chips) for part in chosen)
        found = search.estimates(parts, job.train.global_batch_size, TIMED, chips_min=job.chips.minimum)
        offers = [Offer(timed=estimate.timed, parts=parts) for estimate in found]
        if offers:
            best = min(offers, key=lambda offer: offer.timed.timeline.step_ms)
            return plan_of(search, job, best, whole_parts(classes))
    return None
