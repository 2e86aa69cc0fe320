"""A draft without replicas for a job: the setting that it is timed in, the program that trains, the links there are.

Must not know which chips there are, nor what is tried.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.costs.measured import Measured
from argosy.plan.costs.program import program_for
from argosy.plan.costs.setting import Setting
from argosy.plan.forms import Form
from argosy.plan.search.drafts import Draft


def base_draft(
    job: Job,
    shape: ModelShape,
    long_links: Sequence[LongLink],
    fleet: str,
    measured: Measured | None,
    *,
    own: bool,
    form: Form | None,
) -> Draft:
    """Make a draft without groups. own: for Argosy's own trainer; form: else for this framework.

    Links without a rate are left out.
    """
    train = job.train
    setting = Setting(
        shape,
        train.sequence_length,
        train.precision,
        program=program_for(train.precision, own=own, form=form),
        measured=measured,
    )
    links = tuple(link for link in long_links if link.gbps > 0)
    return Draft(setting=setting, model=job.model, fleet=fleet, groups=(), schedule="", zero_stage=0, links=links)
