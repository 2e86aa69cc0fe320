"""What a plan is held against: its classes, each alone at its best, the batch shared by speed.

A reference that a plan may surpass; what none can is in `least`. Must not choose between plans.
"""

from argosy.contracts.job import Job
from argosy.contracts.plan import AloneRate
from argosy.plan.costs.alone import efficiency
from argosy.plan.costs.tables import worked
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import Reference
from argosy.plan.search.search import Search

# Of a class alone the best two are looked for, and so many more timed at most.
WANTED_ALONE, SPARE_ALONE = 2, 6


def reference(search: Search, job: Job, offer: Offer) -> Reference:
    """Hold an offer against the sum of what each of its classes would do alone at its best, the batch shared by speed.

    A class counts with its best plan for its share; if there is none, for the whole batch; and only where the model
    does not fit on it at all, with its arithmetic.
    """
    draft = offer.timed.draft
    parts = [part for part in offer.parts if part.chip_class.name in draft.classes]
    if len(parts) == 1 and len(draft.classes) == 1:
        alone = alone_tokens_per_second(search, parts[0], job.train.global_batch_size)
        best = max(alone or 0.0, offer.timed.tokens_per_second)
        return Reference(tokens_per_second=best, name=f"the best plan on {parts[0].chip_class.name} alone")
    batch = job.train.global_batch_size
    paces = [search.pace(part) or ideal_tokens_per_second(search, part) for part in parts]
    rates = []
    for part, pace in zip(parts, paces, strict=True):
        share = batch_share(search, batch, pace / sum(paces))
        speed = alone_tokens_per_second(search, part, share) or alone_tokens_per_second(search, part, batch)
        rate = AloneRate(
            chip_class=part.chip_class.name,
            tokens_per_second=speed or ideal_tokens_per_second(search, part),
            by_arithmetic=not speed,
            emulated=part.chip_class.emulated,
        )
        rates.append(rate)
    name = "the parts on their own, each at its share of the batch"
    return Reference(tokens_per_second=sum(rate.tokens_per_second for rate in rates), name=name, parts=tuple(rates))


def batch_share(search: Search, batch: int, share: float) -> int:
    """Round a share of a batch to whole micro-batches of the smallest size."""
    size = min(search.freedom.sizes)
    return max(1, round(batch * share / size)) * size


def alone_tokens_per_second(search: Search, part: Part, batch: int) -> float | None:
    """Give the throughput of the best plan on one class alone; None where the model does not fit on it."""

    def work() -> float | None:
        estimates = search.estimates([part], batch, WANTED_ALONE, spare=SPARE_ALONE)
        return max((estimate.timed.tokens_per_second for estimate in estimates), default=None)

    # Plans of one job are held against much the same.
    key = ("alone", part.chip_class.name, part.chips, batch, search.freedom)
    return worked(search.base.setting, key, work)


def ideal_tokens_per_second(search: Search, part: Part) -> float:
    """Give what a part would do without any bubble or exchange, for one that can't hold the model alone."""
    setting = search.base.setting
    peak = part.chips * part.chip_class.chip.tflops[setting.precision]
    return peak * 1e12 * efficiency(part.chip_class) / setting.flops_per_token
