"""From inputs to the plan that will run: the planner's answers, the one chosen, bound to nodes.

Starts nothing; what can't run here is refused before anything is.
"""

from dataclasses import dataclass
from pathlib import Path

from argosy.cli.here import bind_here
from argosy.cli.inputs import Inputs
from argosy.cli.jobs import load_model, shadow_note, told_of
from argosy.cli.planfile import read_plan
from argosy.cli.planning import plan_inputs
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape, check_trainable


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen. plan: bound to nodes. plans: the chosen one unbound, then the planner's others.

    notes: what the user should know of the choice.
    """

    shape: ModelShape
    config: str
    plan: Plan
    plans: tuple[Plan, ...]
    from_file: bool = False
    notes: tuple[str, ...] = ()


def choose(inputs: Inputs, wanted: str | None = None) -> Choice:
    """Plan a job and choose: the planner's best plan, its N-th, or one from a JSON file.

    Raises BadInputError for what the trainer or this machine can't run, NeverFitsError when no plan fits.
    """
    shape, config = load_model(inputs.job, inputs.job_source)
    with told_of(inputs.job_source):
        check_trainable(shape, "model")
    from_file = wanted is not None and not wanted.isdecimal()
    if from_file:
        plans: tuple[Plan, ...] = (read_plan(Path(str(wanted)), inputs),)
    else:
        plans = chosen_first(plan_inputs(inputs, shape, runnable=True), int(wanted or 1))
    plan = bind_here(plans[0], inputs)
    notes = [shadow_note(inputs.job.model)]
    if plans[0].placement and plans[0].placement != plan.placement:
        notes.append(f"{wanted} places its ranks elsewhere; its placement is not used, they were placed anew")
    found = tuple(filter(None, notes))
    return Choice(shape=shape, config=config, plan=plan, plans=plans, from_file=from_file, notes=found)


def chosen_first(plans: tuple[Plan, ...], number: int) -> tuple[Plan, ...]:
    """Put the plan that `--plan` names by its number, counted from 1, before the others."""
    if not 1 <= number <= len(plans):
        listed = "`argosy plan` lists them, the trainer's with --runnable"
        raise BadInputError(f"--plan {number}: there are plans 1 to {len(plans)}; {listed}")
    chosen = plans[number - 1]
    return (chosen, *(plan for plan in plans if plan is not chosen))
