"""Why a plan and not another, and what holds it back: all that `argosy plan --explain` tells, as figures.

Puts together what searches, the timeline and the plan's own prediction say. Must not choose.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from argosy.contracts.fleet import ChipClass, LongLink
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.search.choices import Asker, Choice, best_step_ms, choices
from argosy.plan.search.fit import usable_classes
from argosy.plan.search.question import Asked, make_search
from argosy.plan.telling.limits import Eased, Room, eased_limits, rooms

BUBBLE, EXCHANGE = "bubble on ", "gradient exchange "
# Less than this nobody feels.
SHARE_MIN = 0.001
MORE_MEMORY = "chips with twice the memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What there is to say of a plan.

    choices: what each is worth. eased: limits eased one at a time. rooms: how full memory is. binding: what holds the
    plan back, the part of a step it takes, largest first. left_out: chips and entries of the cost tables that could
    not be planned with, and why.
    """

    choices: tuple[Choice, ...]
    eased: tuple[Eased, ...]
    rooms: tuple[Room, ...]
    binding: tuple[tuple[str, float], ...]
    left_out: tuple[str, ...]


def explanation(
    job: Job,
    shape: ModelShape,
    classes: Sequence[ChipClass],
    long_links: Sequence[LongLink],
    plans: Sequence[Plan],
    **asked: Unpack[Asked],
) -> Explanation:
    """Explain the first of a job's plans by asking for others. plans: as `plan_job` lists them. asked: the terms."""
    plan = plans[0]
    usable, refusals = usable_classes(job, classes)
    chips = Counter[str]()
    for replica in plan.replicas:
        for stage in plan.places(replica):
            chips[stage.chip_class] += stage.width

    def asker(given: Sequence[ChipClass]) -> Asker:
        # A search remembers classes by name, so other classes need others.
        search = make_search(job, shape, long_links, plan.fleet, **asked)
        used = (replace(c, nodes=-(-chips[c.name] // c.chips_per_node)) for c in given if chips[c.name])
        listed = dict(enumerate(plans[1:], 2))
        return Asker(search=search, job=job, classes=tuple(given), used=tuple(used), listed=listed)

    here = asker(usable)
    told = choices(here, plan)
    larger = [replace(c, chip=replace(c.chip, memory_gb=2 * (c.chip.memory_gb or 0.0))) for c in usable]
    eased = [*eased_limits(plan), *gained(plan, MORE_MEMORY, best_step_ms(asker(larger)))]
    return Explanation(
        choices=told,
        eased=tuple(sorted(eased, key=lambda one: -one.gain)),
        rooms=rooms(plan),
        binding=binding(plan, eased),
        left_out=(*refusals, *here.search.base.setting.missing),
    )


def gained(plan: Plan, what: str, step_ms: float | None) -> list[Eased]:
    """Say what a plan found under an eased limit saves; nothing where it saves nothing."""
    if plan.prediction is None or step_ms is None or step_ms >= plan.prediction.step_ms:
        return []
    return [Eased(what=what, step_ms=step_ms, gain=1 - step_ms / plan.prediction.step_ms)]


def binding(plan: Plan, eased: Sequence[Eased]) -> tuple[tuple[str, float], ...]:
    """Name what holds a plan back and the part of the step it takes, or would save if there were more of it."""
    shares: dict[str, float] = {}
    for holdup in plan.prediction.holdups if plan.prediction else ():
        if holdup.what.startswith(BUBBLE):
            shares["bubble"] = shares.get("bubble", 0.0) + holdup.share
        elif holdup.what == f"{EXCHANGE}inside sites":
            shares["sync inside sites"] = holdup.share
        elif holdup.what.startswith(EXCHANGE):
            shares["long link"] = shares.get("long link", 0.0) + holdup.share
        else:
            shares[holdup.what] = holdup.share
    for one in eased:
        if one.what == MORE_MEMORY:
            shares["memory"] = one.gain
    felt = [pair for pair in shares.items() if pair[1] >= SHARE_MIN]
    return tuple(sorted(felt, key=lambda pair: -pair[1]))
