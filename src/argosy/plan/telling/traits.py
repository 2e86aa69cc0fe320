"""What a plan chooses, in words: the traits by which plans are told apart.

Must not know which is better.
"""

from argosy.contracts.errors import BadInputError
from argosy.contracts.plan import Plan
from argosy.plan.telling.explain import plan_chips
from argosy.plan.timing.check import check_plan

Traits = dict[str, str]
"""By the name of the choice, such as `TP` or, where there are several classes, `TP on north/h800-sxm`."""


def is_sound(plan: Plan) -> bool:
    """Tell whether what was changed by hand is a plan at all."""
    try:
        check_plan(plan)
    except BadInputError:
        return False
    return True


def traits(plan: Plan) -> Traits:
    """Say what a plan chooses, by the name of the choice."""
    found: dict[str, set[str]] = {}
    several = len(plan_chips(plan)) > 1
    for replica in plan.replicas:
        places = plan.places(replica)
        for name in dict.fromkeys(stage.chip_class for stage in places):
            of_class = [stage for stage in places if stage.chip_class == name]
            at = f" on {name}" if several else ""
            found.setdefault(f"TP{at}", set()).update(str(stage.tp) for stage in of_class)
            found.setdefault(f"CP{at}", set()).update(str(stage.cp) for stage in of_class)
            found.setdefault(f"EP{at}", set()).update(str(stage.ep) for stage in of_class)
            found.setdefault(f"stages{at}", set()).add(str(len(of_class)))
        found.setdefault("micro-batch size", set()).add(str(replica.microbatch_size))
        found.setdefault("recompute", set()).update(stage.recompute for stage in replica.stages)
    virtual = f", {plan.virtual_stages} virtual stages" if plan.virtual_stages > 1 else ""
    found["schedule"], found["ZeRO"] = {plan.schedule + virtual}, {str(plan.zero_stage)}
    return {name: " and ".join(sorted(values, key=lambda text: (len(text), text))) for name, values in found.items()}
