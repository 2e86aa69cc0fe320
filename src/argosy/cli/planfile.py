"""Plans from outside the planner: read, and seen to be of this job and fleet.

It must not choose.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.cli.files import read_text
from argosy.cli.inputs import Inputs
from argosy.cli.jobs import told_of
from argosy.cli.used import plan_classes
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.contracts.strict import decode_strict
from argosy.plan.timing.check import check_plan

PLAN_BYTES_MAX = 64_000_000


def read_plan(path: Path, inputs: Inputs) -> Plan:
    """Read a plan from JSON (`plan.json` of a run) and see that it is one of this job and fleet."""
    hint = "give a number of what `argosy plan --runnable` lists, or the plan.json of a run"
    text = read_text(path, "plan file", hint, PLAN_BYTES_MAX)
    train = inputs.job.train
    wanted: dict[str, Any] = {
        "model": inputs.job.model,
        "sequence_length": train.sequence_length,
        "global_batch_size": train.global_batch_size,
        "precision": train.precision,
    }
    with told_of(str(path)):
        plan = decode_strict(text, Plan)
        for field, value in wanted.items():
            if getattr(plan, field) != value:
                raise BadInputError(f"{field} is {getattr(plan, field)!r}, the job says {value!r}; plan it again")
        known = {chip_class.name for chip_class in inputs.classes}
        check_plan(plan)
        for name in sorted({stage.chip_class for replica in plan.replicas for stage in replica.stages} - known):
            raise BadInputError(f"uses chips {name!r}; {inputs.fleet_source} has {', '.join(sorted(known))}")
    return replace(plan, emulated=any(chip_class.emulated for chip_class in plan_classes(plan, inputs)))
