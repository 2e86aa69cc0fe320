"""A job turned into the search that answers it: what it leaves open is tried, what it fixes is kept.

Must not know which chips there are.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.drafts import Draft
from argosy.plan.grid import Form as Form
from argosy.plan.grid import Freedom
from argosy.plan.measured import Measured as Measured
from argosy.plan.program import MEGATRON_CORE, TRAINER, Program
from argosy.plan.search import MICROBATCH_SIZES, Search
from argosy.plan.setting import Setting

RECOMPUTES, TRAINER_RECOMPUTES = ("none", "selective", "full"), ("none", "full")


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
            program=program_of(train.precision, measured, runnable=runnable, form=form),
            measured=measured,
        ),
        model=job.model,
        fleet=fleet,
        groups=(),
        schedule="",
        zero_stage=0,
        links=tuple(link for link in long_links if link.gbps > 0),
    )
    freedom = Freedom(
        sizes=(train.microbatch_size,) if train.microbatch_size else MICROBATCH_SIZES,
        recomputes=(train.recompute,) if train.recompute else TRAINER_RECOMPUTES if runnable else RECOMPUTES,
        runnable=runnable,
        form=form,
        batch=train.global_batch_size,
    )
    return Search(base, freedom, train.global_batch_size)


def program_of(
    precision: str, measured: Measured | None, *, runnable: bool = False, form: Form | None = None
) -> Program:
    """Say what program a plan is for: Megatron Core stands for all frameworks, unless only the trainer will do.

    Profiles are measured with the trainer, and only it trains in fp32.
    """
    own = runnable or precision != "bf16" or (measured is not None and form is None)
    return TRAINER if own else MEGATRON_CORE
