"""A wish that the ranks leave: SIGTERM is noted, and heeded by all ranks together after the step that they are in.

Knows nothing of steps or checkpoints.
"""

import signal
from types import FrameType


class Leaving:
    """Whether this rank was asked to leave. watched: note SIGTERM, which otherwise ends the process at once."""

    def __init__(self, *, watched: bool) -> None:
        self.asked = False
        if watched:
            signal.signal(signal.SIGTERM, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
