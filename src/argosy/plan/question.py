"""A job turned into the search that answers it: what it leaves open is tried, what it fixes is kept.

Must not know which chips there are.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.drafts import Draft
from argosy.plan.measured import Measured as Measured
from argosy.plan.search import MICROBATCH_SIZES, RECOMPUTES, Search
from argosy.plan.setting import Setting


def make_search(
    job: Job, shape: ModelShape, long_links: Sequence[LongLink], fleet: str, measured: Measured | None = None
) -> Search:
    """Make the search for a job's plans. measured: profiles, which go before the roofline."""
    train = job.train
    base = Draft(
        setting=Setting(shape, train.sequence_length, train.precision, measured=measured),
        model=job.model,
        fleet=fleet,
        groups=(),
        schedule="",
        zero_stage=0,
        links=tuple(long_links),
    )
    sizes = [train.microbatch_size] if train.microbatch_size else MICROBATCH_SIZES
    return Search(base, sizes, [train.recompute] if train.recompute else RECOMPUTES)
