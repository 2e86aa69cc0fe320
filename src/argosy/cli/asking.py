"""What `argosy plan` asks the planner: plans of a job's model, on the terms that options set.

Refuses a model that no plan could train so, and words the terms. It must not know what becomes of the plans.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import load_model, told_of
from argosy.cli.planning import plan_inputs, sized_inputs
from argosy.contracts.errors import BadInputError, NeverFitsError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.plan.exports.formats import check_model
from argosy.plan.forms import Form


def asked_plans(inputs: Inputs, *, runnable: bool, form: Form | None) -> tuple[ModelShape, tuple[Plan, ...]]:
    """Load the job's model and ask the planner; the first plan is the best."""
    shape = asked_model(inputs, form)
    with telling_terms(runnable=runnable, form=form):
        return shape, plan_inputs(inputs, shape, runnable=runnable, form=form)


def asked_sizes(inputs: Inputs, *, runnable: bool, form: Form | None) -> list[Plan]:
    """Load the job's model and ask the planner for plans in many sizes."""
    shape = asked_model(inputs, form)
    with telling_terms(runnable=runnable, form=form):
        return sized_inputs(inputs, shape, runnable=runnable, form=form)


def asked_model(inputs: Inputs, form: Form | None) -> ModelShape:
    """Load the job's model.

    Raises BadInputError for sequences beyond its table of positions, and for a model that the framework of the form
    can't run, whatever the plan.
    """
    shape, tokens = load_model(inputs.job, inputs.job_source)[0], inputs.job.train.sequence_length
    with told_of(inputs.job_source):
        if 0 < (shape.learned_positions or 0) < tokens:
            raise BadInputError(
                f"train.sequence_length: got {tokens:,}; {shape.name} has a learned table of "
                f"{shape.learned_positions:,} positions; write no more, or name a config.json with a longer table"
            )
        if form is not None:
            check_model(form.name, shape, tokens)
    return shape


def terms_text(*, runnable: bool, form: Form | None) -> str:
    """Say what alone was asked for, such as `only plans that flagscale runs`; empty where any plan will do."""
    who = "Argosy's trainer" if runnable else form.name if form else ""
    return f"only plans that {who} runs" if who else ""


@contextmanager
def telling_terms(*, runnable: bool, form: Form | None) -> Iterator[None]:
    """Let a refusal of all plans say what alone was looked for."""
    try:
        yield
    except NeverFitsError as error:
        terms = terms_text(runnable=runnable, form=form)
        if not terms:
            raise
        option = "--runnable" if runnable else "--for"
        raise NeverFitsError(f"{error}\nlooked for: {terms}; without {option} another plan may do.") from error
