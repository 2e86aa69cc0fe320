"""Ask the planner about what a command was given, saying on stderr how far it is if that takes long.

It plans by asking the room `plan`; it must not know what becomes of the plans.
"""

import datetime

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import seconds_left, told_of
from argosy.cli.waiting import Waiting
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.forms import Form
from argosy.plan.planner import plan_job
from argosy.plan.search.sizes import sized_plans


def plan_inputs(
    inputs: Inputs, shape: ModelShape, *, runnable: bool = False, form: Form | None = None
) -> tuple[Plan, ...]:
    """Ask the planner; the first plan is the best.

    runnable: only plans that Argosy's trainer runs; form: only those that another framework runs.
    """
    with told_of(inputs.job_source), Waiting() as waiting:
        return plan_job(
            inputs.job,
            shape,
            inputs.classes,
            inputs.fleet.long_links,
            fleet=inputs.fleet.name,
            seconds_left=seconds_left(inputs.job, datetime.datetime.now().astimezone()),
            progress=waiting.tell,
            runnable=runnable,
            form=form,
            measured=inputs.measured,
        )


def sized_inputs(inputs: Inputs, shape: ModelShape, *, runnable: bool = False, form: Form | None = None) -> list[Plan]:
    """Ask the planner for plans in many sizes; runnable, form: as of `plan_inputs`."""
    with told_of(inputs.job_source), Waiting() as waiting:
        return sized_plans(
            inputs.job,
            shape,
            inputs.classes,
            inputs.fleet.long_links,
            fleet=inputs.fleet.name,
            progress=waiting.tell,
            cheapest=True,
            measured=inputs.measured,
            runnable=runnable,
            form=form,
        )
