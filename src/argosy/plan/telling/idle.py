"""Chips that a plan leaves idle, and why: not allowed, not plannable, too small alone, capped, or of no help.

Must not choose, nor know how plans are found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from argosy.contracts.fleet import ChipClass
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.search.fit import refusal_of
from argosy.plan.telling.explain import marked, plan_chips, predicted, time_text

W_PER_KW = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Chips of a class that a plan does not use. of: how many there are; why: in words."""

    chip_class: str
    chips: int
    of: int
    why: str


def idle_classes(
    job: Job, classes: Sequence[ChipClass], plans: Sequence[Plan], holds: Callable[[ChipClass], bool]
) -> tuple[Idle, ...]:
    """Say what the first of some plans leaves idle, and why.

    plans: all that were found, best first. holds: tells whether a class could hold the model alone.
    """
    used = plan_chips(plans[0])
    return tuple(
        Idle(chip_class=c.name, chips=left, of=c.chips, why=why_idle(job, c, plans, holds))
        for c in sorted(classes, key=lambda c: c.name)
        if (left := c.chips - used.get(c.name, 0)) > 0
    )


def caps_left(job: Job, chip_class: ChipClass, plan: Plan) -> list[tuple[int, str]]:
    """Count the chips of a class that a plan's caps leave room for, in whole nodes, each with the cap in words."""
    node, most, power_kw = chip_class.chips_per_node, job.chips.maximum, job.objective.power_kw
    found = []
    if most is not None:
        found.append((most - sum(plan_chips(plan).values()), f"chips.max is {most:,}"))
    if power_kw is not None:
        left_w = (power_kw - (predicted(plan).power_kw or 0.0)) * W_PER_KW
        found.append((int(left_w / (chip_class.chip.tdp_w or float("inf"))), f"objective.power is {power_kw:,.4g} kW"))
    return [(max(0, chips) // node * node, text) for chips, text in found]


def why_idle(job: Job, chip_class: ChipClass, plans: Sequence[Plan], holds: Callable[[ChipClass], bool]) -> str:
    """Say why a plan leaves chips of a class idle."""
    name = chip_class.name
    if job.chips.allow and chip_class.chip.name not in job.chips.allow:
        return "not in chips.allow"
    if refusal := refusal_of(job, chip_class):
        return refusal
    room, capped = min(caps_left(job, chip_class, plans[0]), default=(chip_class.chips, ""))
    if room <= 0:
        return capped
    used = plan_chips(plans[0]).get(name, 0)
    some = f"{capped}, which leaves room for {room:,} of them; " if room < chip_class.chips - used else ""
    return some + why_unwanted(job, chip_class, plans, holds)


def why_unwanted(job: Job, chip_class: ChipClass, plans: Sequence[Plan], holds: Callable[[ChipClass], bool]) -> str:
    """Say why a plan leaves chips of a class idle that it may have."""
    name = chip_class.name
    if name in plan_chips(plans[0]):
        return "more of them would be of no help" if job.objective.goal == "fastest" else "fewer are cheaper"
    small = "" if holds(chip_class) else "the model does not fit on them alone; "
    with_them = next((number for number, plan in enumerate(plans[1:], 2) if name in plan_chips(plan)), None)
    if with_them is not None:
        other = plans[with_them - 1]
        step = marked(time_text(predicted(other).step_ms), other.emulated)
        return f"{small}option {with_them}, which has them, takes {step} a step"
    return f"{small}no better plan with them was found"
