"""What is found near the best offer with one choice given, as a job or a framework might give it.

The search times those that its estimates put first; with a size of micro-batches, a way to recompute, the form of a
framework or a node fewer given, others come first. So little is left that such a restriction finds and the
free search has not seen: a few per cent, of what was drawn.
Must not know what a job prefers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from argosy.contracts.job import Job
from argosy.plan.forms import FORMS
from argosy.plan.pipelines.grid import Family, Freedom, Part
from argosy.plan.search.offers import Offer
from argosy.plan.search.search import BLOCK_MAX, Search

# Of each restriction so many drafts, and so many more timed.
WANTED, SPARE = 2, 1
# So many sets of classes are looked into, where their best offers take no more than so many times the best.
SETS, NEAR = 2, 1.25
# Sizes that divide the batch are given up to this one, besides those tried anyway.
DIVISOR_MAX = 6
# Of more classes than this, only those share pipelines that do so in the best offer, and less is looked into.
JOINED_ANEW_MAX = 2
# Of more nodes than this one less makes little difference.
NODES_FEW = 16


def narrower(search: Search, job: Job, ranked: Sequence[Offer]) -> list[Offer]:
    """Offer the best of each restriction, on the chips of the best few offers. ranked: the best first."""
    draft = ranked[0].timed.draft
    families = [f for f in search.families if f.schedule in (draft.schedule, "1f1b")]
    few = len(draft.classes) <= JOINED_ANEW_MAX
    families = [f for f in families if f.zero_stage in ((0, 1, draft.zero_stage) if few else (draft.zero_stage,))]
    near_ms = NEAR * ranked[0].timed.timeline.step_ms
    kinds: dict[object, Offer] = {}
    for offer in ranked:
        if offer.timed.timeline.step_ms <= near_ms:
            kinds.setdefault(frozenset(offer.timed.draft.classes), offer)
    return [
        one for best in list(kinds.values())[: SETS if few else 1] for one in restricted(search, job, best, families)
    ]


def restricted(search: Search, job: Job, best: Offer, families: Sequence[Family]) -> Iterator[Offer]:
    """Give the best of each restriction on the chips of an offer, among some families."""
    used = tuple(part for part in best.parts if part.chip_class.name in best.timed.draft.classes)
    batch = job.train.global_batch_size
    for freedom, given in restrictions(search, used):
        one = Search(search.base, freedom, batch)
        one.joined, one.crowded = search.joined, search.crowded
        one.families = tuple(f for f in one.families if f in families)
        if len(given) > JOINED_ANEW_MAX:
            one.blocks = [given] if freedom.form and len(given) <= BLOCK_MAX else blocks_of(best, given)
        for estimate in one.estimates(given, batch, WANTED, chips_min=job.chips.minimum, spare=SPARE):
            yield Offer(timed=estimate.timed, parts=best.parts)


def blocks_of(offer: Offer, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Put parts into blocks as an offer's pipelines go through them."""
    homes = {part.chip_class.name: frozenset({part.chip_class.name}) for part in parts}
    for group in offer.timed.draft.groups:
        together = frozenset().union(*(homes[run.chip_class.name] for run in group.template.layout.runs))
        homes |= dict.fromkeys(together, together)
    each = {home: tuple(part for part in parts if part.chip_class.name in home) for home in homes.values()}
    return list(each.values())


def restrictions(search: Search, parts: tuple[Part, ...]) -> Iterator[tuple[Freedom, tuple[Part, ...]]]:
    """Give what may be given of a search's freedom, one thing at a time, and the chips it is given for.

    With a node fewer the way to recompute too: so few more chips often decide whether anything must be recomputed.
    """
    free = search.freedom
    if len(free.sizes) > 1:
        divisors = (n for n in range(1, DIVISOR_MAX + 1) if search.batch % n == 0)
        for size in sorted({*(n for n in free.sizes if search.batch % n == 0), *divisors}):
            yield replace(free, sizes=(size,)), parts
    recomputed = [replace(free, recomputes=(way,)) for way in free.recomputes if len(free.recomputes) > 1]
    yield from ((given, parts) for given in recomputed)
    if not free.form and not free.runnable:
        for form in FORMS.values():
            yield replace(free, form=form), parts
    for index, part in enumerate(parts):
        fewer = part.chips - part.chip_class.chips_per_node
        if 0 < fewer < NODES_FEW * part.chip_class.chips_per_node:
            without = (*parts[:index], replace(part, chips=fewer), *parts[index + 1 :])
            yield from ((given, without) for given in (free, *recomputed))
