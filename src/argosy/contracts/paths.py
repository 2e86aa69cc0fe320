"""How checkpoints are called, for those who write them and those who only look for them.

Names alone; nothing here opens a folder.
"""

import re

CHECKPOINT_FILE = "argosy.json"
"""What a checkpoint's folder holds once it is whole."""

STEP_DIGITS = 8
STEP_MAX = 10**STEP_DIGITS - 1
"""The last step that a name can hold, and so the most a job may have."""

_CHECKPOINT = re.compile(rf"step-([0-9]{{{STEP_DIGITS}}})")


def checkpoint_name(step: int) -> str:
    """Name the folder of the checkpoint after `step` steps.

    >>> checkpoint_name(20)
    'step-00000020'
    """
    return f"step-{step:0{STEP_DIGITS}d}"


def checkpoint_step(name: str) -> int | None:
    """Read the step out of a checkpoint's name; None for what is named otherwise.

    >>> checkpoint_step("step-00000020"), checkpoint_step("step-20"), checkpoint_step("step-00000020.writing")
    (20, None, None)
    """
    found = _CHECKPOINT.fullmatch(name)
    return int(found[1]) if found else None
