"""Which classes of a fleet a plan uses. It looks up; it must not plan."""

from collections.abc import Sequence

from argosy.cli.inputs import Inputs
from argosy.contracts.fleet import ChipClass
from argosy.contracts.plan import Plan

ELSEWHERE = (
    "this command starts ranks on this machine alone; on several, a service does (`argosy submit`). Leave out --fleet "
    "to use this machine, or give its nodes `emulate: {tflops: 0.05, memory_gb: 1}` to play them here"
)


def used_classes(classes: Sequence[str], inputs: Inputs) -> list[ChipClass]:
    """Look up classes by name, each once, in the fleet's order; names that it does not have are left out."""
    return [chip_class for chip_class in inputs.classes if chip_class.name in classes]


def plan_classes(plan: Plan, inputs: Inputs) -> list[ChipClass]:
    """List the chip classes that a plan uses, in the fleet's order."""
    names = {stage.chip_class for replica in plan.replicas for stage in replica.stages}
    return used_classes(sorted(names), inputs)
