"""A job turned into the search that answers it: what it leaves open is tried, what it fixes is kept.

Must not know which chips there are.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from argosy.contracts.fleet import LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.costs.measured import Measured
from argosy.plan.forms import Form
from argosy.plan.pipelines.grid import Freedom, powers
from argosy.plan.search.base import base_draft
from argosy.plan.search.search import Search

# With fused attention there are no scores to recompute selectively; a profile may know otherwise.
# Micro-batches of up to SMALL_SIZE sequences are tried always, larger ones of up to LARGE_TOKENS tokens.
SMALL_SIZE, LARGEST_SIZE, LARGE_TOKENS = 4, 64, 65536
RECOMPUTES, FUSED_RECOMPUTES = ("none", "selective", "full"), ("none", "full")


class Asked(TypedDict, total=False):
    """The terms on which plans are asked for, all of them optional; whoever is asked hands them on.

    measured: profiles, which go before the roofline; a chip that has one is planned by it alone. runnable: only plans
    that Argosy's own trainer runs. form: only plans that another framework runs.
    """

    measured: Measured | None
    runnable: bool
    form: Form | None


def microbatch_sizes(sequence_length: int) -> tuple[int, ...]:
    """List the sizes of micro-batches to try: a few, and larger ones of short sequences, whose products are small.

    >>> microbatch_sizes(8192), microbatch_sizes(512)
    ((1, 2, 4, 8), (1, 2, 4, 8, 16, 32, 64))
    """
    sizes = (size for size in powers(LARGEST_SIZE) if size <= SMALL_SIZE or size * sequence_length <= LARGE_TOKENS)
    return tuple(sizes)


def make_search(
    job: Job,
    shape: ModelShape,
    long_links: Sequence[LongLink],
    fleet: str,
    **asked: Unpack[Asked],
) -> Search:
    """Make the search for a job's plans, on the terms that were asked for."""
    train = job.train
    measured, runnable, form = asked.get("measured"), asked.get("runnable", False), asked.get("form")
    own = runnable or (measured is not None and form is None)
    base = base_draft(job, shape, long_links, fleet, measured, own=own, form=form)
    recomputes = RECOMPUTES if measured and not runnable else FUSED_RECOMPUTES
    freedom = Freedom(
        sizes=(train.microbatch_size,) if train.microbatch_size else microbatch_sizes(train.sequence_length),
        recomputes=(train.recompute,) if train.recompute else recomputes,
        runnable=runnable,
        form=form,
        batch=train.global_batch_size,
    )
    return Search(base, freedom, train.global_batch_size)
