"""A plan bound to the nodes of a fleet, as far as this machine can run it.

Refuses by name before anything is started. It must not choose.
"""

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import told_of
from argosy.cli.used import ELSEWHERE, plan_classes
from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.fleet.detect import survey
from argosy.plan.bind import bind


def bind_here(plan: Plan, inputs: Inputs) -> Plan:
    """Place a plan on the fleet's nodes; raises BadInputError where they, or this machine, can't run it."""
    bound = bind(plan, inputs.nodes)
    check_here(bound, inputs)
    return bound


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
