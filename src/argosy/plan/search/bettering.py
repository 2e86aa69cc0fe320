"""Make a timed draft better by changing one choice at a time, for as long as the timeline says that it helps.

The search estimates and then times a few; here what is near the best of these is timed too: another schedule or ZeRO
stage, TP, EP and CP degrees, sizes of micro-batches, depths, and fewer replicas; and where a walk from it ends, that
changes many choices (`annealed`). Must not know what a job prefers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from argosy.contracts.job import Job
from argosy.plan.pipelines.grid import Part
from argosy.plan.search.annealed import annealed
from argosy.plan.search.drafts import Candidate
from argosy.plan.search.neighbours import neighbours
from argosy.plan.search.offers import Offer
from argosy.plan.search.predict import Timed, time_draft, timed_again
from argosy.plan.search.search import ZERO_ACROSS_MAX, Search, compute_ms

ROUNDS_MAX = 4
# Steps that differ by no more than this part, far less than predictions are off, are as fast.
TIED = 1e-4


def improved(search: Search, job: Job, offer: Offer) -> Offer:
    """Better an offer one choice at a time."""
    batch, chips_min = job.train.global_batch_size, job.chips.minimum
    return replace(offer, timed=bettered(search, offer.timed, offer.parts, batch, chips_min))


def walked(search: Search, job: Job, offer: Offer, schedule: str = "") -> Offer:
    """Better an offer by where a walk over mixes of pipelines leads from it. schedule: to price mixes by, else its own.

    Another schedule makes other mixes the best; where a walk ends is timed in all.
    """
    draft = offer.timed.draft
    ends = annealed(search, replace(draft, schedule=schedule or draft.schedule), offer.parts)
    batch, chips_min = job.train.global_batch_size, job.chips.minimum
    return replace(offer, timed=soonest(search, offer.timed, ends, batch, chips_min))


def plainest(search: Search, offer: Offer) -> Offer:
    """Share the optimizer's state alone where an offer shares gradients or weights and is hardly faster for it.

    Replicas that share more wait for each other in every micro-batch.
    """
    draft, longest_ms = offer.timed.draft, offer.timed.timeline.step_ms * (1 + TIED)
    if draft.zero_stage <= ZERO_ACROSS_MAX or all(one.zero_stage != ZERO_ACROSS_MAX for one in search.families):
        return offer
    timed = timed_again(replace(draft, zero_stage=ZERO_ACROSS_MAX))
    return offer if timed is None or timed.timeline.step_ms > longest_ms else replace(offer, timed=timed)


def bettered(search: Search, timed: Timed, parts: Sequence[Part], batch: int, chips_min: int) -> Timed:
    """Give the best draft that steps from neighbour to neighbour lead to; parts: what it may use."""
    for _ in range(ROUNDS_MAX):
        best = soonest(search, timed, neighbours(search, timed.draft, parts, batch), batch, chips_min)
        if best is timed:
            break
        timed = best
    return timed


def soonest(search: Search, timed: Timed, candidates: Iterable[Candidate], batch: int, chips_min: int) -> Timed:
    """Give the soonest done of a timed draft and those of some candidates."""
    best = timed
    for candidate in candidates:
        for draft in search.drafts(candidate, batch):
            if sum(draft.chips.values()) >= chips_min and compute_ms(draft) < best.timeline.step_ms:
                best = min(best, time_draft(draft), key=lambda one: one.timeline.step_ms)
    return best
