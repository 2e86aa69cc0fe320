"""Which chips of a fleet a plan leaves idle, and why, in lines for the screen.

Words what the room `plan` answers; computes nothing.
"""

from collections.abc import Sequence

from argosy.cli.inputs import Inputs
from argosy.cli.jobs import load_model
from argosy.contracts.plan import TRAINER_PROGRAM, Plan
from argosy.plan.search.needs import holds_alone
from argosy.plan.search.question import make_search
from argosy.plan.telling.idle import Idle, idle_classes


def idle_lines(inputs: Inputs, plans: Sequence[Plan]) -> list[str]:
    """Say which chips of a fleet the first plan leaves idle, and why; nothing if none."""
    shape = load_model(inputs.job, inputs.job_source)[0]
    own = plans[0].program == TRAINER_PROGRAM
    search = make_search(inputs.job, shape, inputs.fleet.long_links, "", measured=inputs.measured, runnable=own)
    batch = inputs.job.train.global_batch_size
    found = idle_classes(inputs.job, inputs.classes, plans, lambda one: holds_alone(search, one, batch))
    return [f"idle: {idle_text(one)}" for one in found]


def idle_text(idle: Idle) -> str:
    """Write one class that is idle, or a part of it.

    >>> idle_text(Idle(chip_class="north/x", chips=8, of=8, why="not in chips.allow"))
    '8 chips of north/x: not in chips.allow.'
    """
    of = f" of {idle.of:,}" if idle.chips < idle.of else ""
    return f"{idle.chips:,}{of} chip{'' if idle.chips == 1 and not of else 's'} of {idle.chip_class}: {idle.why}."
