"""A job's options for the scheduler: which whole nodes it could have, in which sizes, and what each size is worth.

The scheduler sees `Option`s alone. What they mean in replicas and stages stays in the `Offering`, which is kept beside
the job until `plan.bind_option` is asked for it. Must not know what is free, nor who else waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.option import Option, Part, Size
from argosy.contracts.plan import Plan, Prediction
from argosy.model.shape import ModelShape
from argosy.plan.costs.measured import Measured
from argosy.plan.folding import Folded, fold
from argosy.plan.search.sizes import Progress, nodes_used, sized_plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """The options of one job. forms: by option, what the plan of each size looks like, in the order of its ladder.

    sites, node_chips: of each class.
    """

    options: tuple[Option, ...]
    forms: dict[str, tuple[Folded, ...]] = field(default_factory=dict)
    sites: dict[str, str] = field(default_factory=dict)
    node_chips: dict[str, int] = field(default_factory=dict)
    version: int = 1


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
    ladders: dict[tuple[str, ...], dict[tuple[int, ...], Plan]] = {}
    plans = sized_plans(
        job, shape, classes, long_links, fleet=fleet, progress=progress, measured=measured, runnable=runnable
    )
    for plan in plans:
        used = nodes_used(plan, classes)
        sizes = ladders.setdefault(tuple(used), {})
        known = sizes.get(tuple(used.values()))
        if known is None or speed(plan) > speed(known):
            sizes[tuple(used.values())] = plan
    options, forms = [], {}
    for names, found in ladders.items():
        sizes = without_useless(found)
        name = " + ".join(names)
        ladder = tuple(size_of(names, nodes, plan) for nodes, plan in sizes.items())
        options.append(Option(name=name, job=job_id or job.name, ladder=ladder, valid_until_us=valid_until_us))
        forms[name] = tuple(fold(plan) for plan in sizes.values())
    return Offering(
        options=tuple(options),
        forms=forms,
        sites={c.name: c.site for c in classes},
        node_chips={c.name: c.chips_per_node for c in classes},
    )


def without_useless(sizes: dict[tuple[int, ...], Plan]) -> dict[tuple[int, ...], Plan]:
    """Keep the sizes that are faster than all that take no more nodes of any class; largest first."""
    kept = {}
    for nodes, plan in sizes.items():
        smaller = [
            other
            for at, other in sizes.items()
            if at != nodes and all(few <= many for few, many in zip(at, nodes, strict=True))
        ]
        if all(speed(plan) > speed(other) for other in smaller):
            kept[nodes] = plan
    return dict(sorted(kept.items(), key=lambda item: (sum(item[0]), item[0]), reverse=True))


def size_of(names: Sequence[str], nodes: Sequence[int], plan: Plan) -> Size:
    """Say what a plan needs and what it is worth, in the scheduler's words."""
    told = told_of(plan)
    level = "node" if sum(nodes) == 1 else "site"
    return Size(
        parts=tuple(Part(chip_class=name, nodes=n, topology=level) for name, n in zip(names, nodes, strict=True)),
        tokens_per_second=told.tokens_per_second,
        efficiency=told.efficiency,
        cost_per_trillion_tokens=told.cost_per_trillion_tokens,
        power_kw=told.power_kw,
        emulated=plan.emulated,
    )


def speed(plan: Plan) -> float:
    """Give a plan's predicted tokens a second."""
    return told_of(plan).tokens_per_second


def told_of(plan: Plan) -> Prediction:
    """Give a plan's prediction, which the planner makes for each."""
    if plan.prediction is None:
        raise ValueError("a plan without a prediction can't be offered")
    return plan.prediction
