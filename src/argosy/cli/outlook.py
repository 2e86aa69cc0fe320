"""What becomes of a job by a plan, from now on: how long it takes, at which prices, and what power it draws.

Words what the room `plan` answers; computes nothing.
"""

import datetime
from collections.abc import Sequence
from contextlib import suppress

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import seconds_left
from argosy.contracts.errors import BadInputError
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.plan.telling.course import Course, course, course_line, late_lines
from argosy.plan.telling.power import overdrawn
from argosy.plan.telling.prices import price_line


def course_of(job: Job, plan: Plan) -> Course:
    """Work out what a job takes by a plan, from now on."""
    now = datetime.datetime.now().astimezone()
    left = None
    # A deadline that has passed is refused where a job is planned, not where a plan is shown.
    with suppress(BadInputError):
        left = seconds_left(job, now)
    return course(plan, job, now, left)


def course_lines(inputs: Inputs, plans: Sequence[Plan]) -> list[str]:
    """Say what all steps take by the first of some plans, which limits that misses, and at which prices they are."""
    told = course_of(inputs.job, plans[0])
    return [*filter(None, [course_line(told), *late_lines(told, plans[0]), price_line(plans, inputs.classes)])]


def power_lines(inputs: Inputs, plan: Plan) -> list[str]:
    """Say how much of the job's power cap a plan takes, and which sites' caps it passes, to which no plan is held."""
    cap_kw, told = inputs.job.objective.power_kw, plan.prediction
    lines = []
    if cap_kw is not None and told is not None and told.power_kw is not None:
        lines.append(f"power: the chips in use draw {told.power_kw:,.4g} of {cap_kw:,.4g} kW at their rated power.")
    for one in overdrawn(plan, inputs.classes, inputs.fleet.sites):
        lines.append(
            f"power: {one.site} draws {one.draw_mw:,.4g} MW for the chips in use alone, its power_mw is "
            f"{one.cap_mw:,.4g}; plans are held to objective.power, not to this."
        )
    return lines
