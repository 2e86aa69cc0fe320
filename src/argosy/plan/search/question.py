"""A job turned into the search that answers it: what it leaves open is tried, what it fixes is kept.

Must not know which chips there are.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.costs.program import program_for
from argosy.plan.costs.setting import Measured as Measured
from argosy.plan.costs.setting import Setting
from argosy.plan.pipelines.grid import Form as Form
from argosy.plan.pipelines.grid import Freedom, powers
from argosy.plan.search.drafts import Draft
from argosy.plan.search.search import Search

# With fused attention there are no scores to recompute selectively; a profile may know otherwise.
# Micro-batches of up to SMALL_SIZE sequences are tried always, larger ones of up to LARGE_TOKENS tokens.
SMALL_SIZE, LARGEST_SIZE, LARGE_TOKENS = 4, 64, 65536
RECOMPUTES, FUSED_RECOMPUTES = ("none", "selective", "full"), ("none", "full")


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
    measured: Measured | None = None,
    *,
    runnable: bool = False,
    form: Form | None = None,
) -> Search:
    """Make the search for a job's plans.

    measured: profiles, which go before the roofline. runnable: only plans that Argosy's own trainer runs.
    form: only plans that another framework runs.
    """
    train = job.train
    base = Draft(
        setting=Setting(
            shape,
            train.sequence_length,
            train.precision,
            program=program_for(train.precision, own=runnable or (measured is not None and form is None)),
            measured=measured,
        ),
        model=job.model,
        fleet=fleet,
        groups=(),
        schedule="",
        zero_stage=0,
        links=tuple(link for link in long_links if link.gbps > 0),
    )
    recomputes = RECOMPUTES if measured and not runnable else FUSED_RECOMPUTES
    freedom = Freedom(
        sizes=(train.microbatch_size,) if train.microbatch_size else microbatch_sizes(train.sequence_length),
        recomputes=(train.recompute,) if train.recompute else recomputes,
        runnable=runnable,
        form=form,
        batch=train.global_batch_size,
    )
    return Search(base, freedom, train.global_batch_size)
