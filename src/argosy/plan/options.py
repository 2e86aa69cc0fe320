"""A job's options for the scheduler: which whole nodes it could have, in which sizes, and what each size is worth.

The scheduler sees `Option`s alone. What they mean in replicas and stages stays in the `Offering`, which is kept beside
the job until `plan.bind_option` is asked for it. Must not know what is free, nor who else waits.
"""

from collections.abc import Sequence

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.model.shape import ModelShape
from argosy.plan.costs.measured import Measured
from argosy.plan.ladders import Sizes, keep_faster, laddered
from argosy.plan.offering import Offering
from argosy.plan.search.sizes import Progress, nodes_used, sized_plans


def options_for(
    job: Job,
    shape: ModelShape,
    classes: Sequence[ChipClass],
    long_links: Sequence[LongLink],
    *,
    job_id: str = "",
    fleet: str = "",
    valid_until_us: int | None = None,
    progress: Progress = lambda _done, _of: None,
    measured: Measured | None = None,
    runnable: bool = True,
) -> Offering:
    """Offer a job every set of classes that is worth having, each with a ladder of sizes, largest first.

    job_id: what the scheduler calls the job; else its name. measured: profiles, as for `plan_job`. runnable:
    only plans that Argosy's own trainer runs, which is what starts them. Raises NeverFitsError when nothing fits,
    BadInputError for chips that the fleet does not have.
    """
    ladders: dict[tuple[str, ...], Sizes] = {}
    plans = sized_plans(
        job, shape, classes, long_links, fleet=fleet, progress=progress, measured=measured, runnable=runnable
    )
    for plan in plans:
        used = nodes_used(plan, classes)
        keep_faster(ladders.setdefault(tuple(used), {}), tuple(used.values()), plan)
    made = [laddered(names, found, job_id or job.name, valid_until_us) for names, found in ladders.items()]
    return Offering(
        options=tuple(option for option, _ in made),
        forms={option.name: forms for option, forms in made},
        sites={c.name: c.site for c in classes},
        node_chips={c.name: c.chips_per_node for c in classes},
    )
