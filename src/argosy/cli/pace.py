"""A step in one line: loss, throughput, MFU, and when the job will be done.

Is told the time; reads no clock.
"""

from argosy.cli.choosing import Choice
from argosy.cli.inputs import Inputs
from argosy.cli.summary import percent
from argosy.cli.yardstick import yardstick
from argosy.contracts.messages import StepDone
from argosy.plan.telling.explain import rate_text

LABEL = 8
# Steps whose pace tells the time left.
STEPS_KEPT = 20


class Pace:
    """Remembers when the last steps were heard of. steps: of the whole job."""

    def __init__(self, inputs: Inputs, choice: Choice) -> None:
        self.steps, self._yardstick = inputs.job.train.steps, yardstick(inputs, choice)
        self._heard_s: list[float] = []

    def text(self, done: StepDone, now_s: float) -> str:
        """Write the step that was just heard of."""
        self._heard_s = [*self._heard_s[-STEPS_KEPT:], now_s]
        mark = "" if done.virtual_s is None else "~"
        tokens_per_second = done.tokens / max(done.wall_s if done.virtual_s is None else done.virtual_s, 1e-9)
        mfu = self._yardstick.mfu(tokens_per_second)
        width = len(str(self.steps))
        parts = [
            f"{'step':{LABEL}}{done.step:>{width}}/{self.steps}",
            f"loss {done.loss:.3f}",
            f"tokens/s {mark}{rate_text(tokens_per_second)}",
            *([f"MFU {mark}{percent(mfu)}"] if mfu is not None else []),
            f"eta {clock_text((self.steps - done.step) * self._step_s(done))}",
        ]
        return "   ".join(parts)

    def _step_s(self, done: StepDone) -> float:
        """Time from a step to the next as it was heard, checkpoints included; for the first one the step's own."""
        if len(self._heard_s) < 2:
            return done.wall_s
        return (self._heard_s[-1] - self._heard_s[0]) / (len(self._heard_s) - 1)


def clock_text(seconds: float) -> str:
    """Write a time as h:mm:ss or m:ss.

    >>> clock_text(3725), clock_text(62)
    ('1:02:05', '1:02')
    """
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
