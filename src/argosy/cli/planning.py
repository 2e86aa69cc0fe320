"""Ask the planner about what a command was given, saying on stderr how far it is if that takes long.

It plans by asking the room `plan`; it must not know what becomes of the plans.
"""

import datetime
import sys
import time
from typing import Self

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import load_model, seconds_left, told_of
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.forms import Form
from argosy.plan.pareto import Front, pareto_front
from argosy.plan.planner import plan_job
from argosy.plan.sizes import sized_plans

# Silence before the first word, and between two where nothing can be written over.
PATIENCE_S, PLAIN_EVERY_S = 2.0, 10.0
CLEAR_LINE = "\r\x1b[K"


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


def plan_model(
    inputs: Inputs, *, runnable: bool = False, form: Form | None = None
) -> tuple[ModelShape, tuple[Plan, ...]]:
    """Load the job's model and ask the planner; the first plan is the best."""
    shape = load_model(inputs.job, inputs.job_source)[0]
    return shape, plan_inputs(inputs, shape, runnable=runnable, form=form)


def front_inputs(inputs: Inputs, *, runnable: bool = False, form: Form | None = None) -> Front:
    """Ask the planner for plans in many sizes, and keep those that no other beats."""
    shape = load_model(inputs.job, inputs.job_source)[0]
    with told_of(inputs.job_source), Waiting() as waiting:
        plans = sized_plans(
            inputs.job,
            shape,
            inputs.classes,
            inputs.fleet.long_links,
            fleet=inputs.fleet.name,
            progress=waiting.tell,
            measured=inputs.measured,
            runnable=runnable,
            form=form,
        )
    return pareto_front(plans)


class Waiting:
    """Says how far planning is, from PATIENCE_S on: on a terminal in one line, else in a line now and then."""

    def __init__(self) -> None:
        self.begun_s = self.told_s = time.monotonic()
        self.shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.shown and sys.stderr.isatty():
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)

    def tell(self, done: int, of: int) -> None:
        """Say that `done` of so many choices of chips were tried."""
        now_s = time.monotonic()
        if now_s - self.begun_s < PATIENCE_S or done == of:
            return
        text = f"planning ... {done} of {of}"
        if sys.stderr.isatty():
            print(f"{CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)
        elif not self.shown or now_s - self.told_s >= PLAIN_EVERY_S:
            print(text, file=sys.stderr, flush=True)
            self.told_s = now_s
        self.shown = True
