"""Plans from outside the planner, and what of any plan can't run on this machine.

Refuses by name before anything is started. It must not choose.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.cli.files import read_text
from argosy.cli.jobs import told_of
from argosy.cli.used import ELSEWHERE, Inputs, plan_classes
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.contracts.strict import decode_strict
from argosy.fleet.detect import survey
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


def check_here(plan: Plan, inputs: Inputs) -> None:
    """Refuse a bound plan that needs another machine than this one, which is all that can be reached today."""
    used = plan_classes(plan, inputs)
    real = [chip_class for chip_class in used if not chip_class.emulated]
    if not real:
        return
    with told_of(inputs.fleet_source):
        if len(real) < len(used):
            names = ", ".join(chip_class.name for chip_class in real)
            raise BadInputError(
                f"the plan mixes emulated chips with real ones ({names}), whose times don't compare; "
                "emulate all or none of them, or choose by chips.allow"
            )
        hosts = sorted({place.node for place in plan.placement})
        if len(hosts) > 1:
            raise BadInputError(f"the plan runs on {len(hosts):,} machines ({', '.join(hosts[:4])}); {ELSEWHERE}")
        here = {group.chip for group in survey(inputs.catalogue).fleet.nodes} | {"cpu"}
        absent = [chip_class.chip.name for chip_class in used if chip_class.chip.name not in here]
        if absent:
            raise BadInputError(
                f"the plan runs on {', '.join(absent)}, this machine has {', '.join(sorted(here))}; "
                "give the nodes `emulate: {tflops: 0.05, memory_gb: 1}` to play them here"
            )
