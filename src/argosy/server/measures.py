"""What ranks report of a training job, rolled up for each generation: steps, times, loss, memory.

A report that comes twice counts once: each node's reports are numbered for good. Must not know how reports travel, nor
where roll-ups are kept.
"""

from dataclasses import dataclass, field

import msgspec

from argosy.contracts.job import TrainSpec
from argosy.contracts.messages import Finished, Note, Saved, StepDone
from argosy.contracts.talk import RankSaid
from argosy.server.models import Figures

HOUR_S = 3_600.0
TRILLION = 1e12
WARM_UP = 1
"""Steps of a generation that don't count in its times: the first loads kernels and caches."""


@dataclass(slots=True, kw_only=True)
class Roll:
    """One generation. positions: of the newest report of each node. timed: steps whose times are summed up."""

    positions: dict[str, int] = field(default_factory=dict)
    first_step: int | None = None
    step: int | None = None
    steps: int = 0
    timed: int = 0
    loss: float | None = None
    wall_s: float = 0.0
    virtual_s: float = 0.0
    emulated: bool = False
    tokens: int = 0
    memory_gb: float | None = None
    saved: str = ""
    notes: int = 0
    at_us: int = 0

    def take(self, node: str, said: RankSaid, at_us: int) -> bool:
        """Count a report; False for one that was counted before."""
        if said.position <= self.positions.get(node, 0):
            return False
        self.positions[node] = said.position
        self.at_us = at_us
        match said.message:
            case StepDone() as done:
                self._step(done)
            case Saved(path=path):
                self.saved = path
            case Finished(memory_gb=memory_gb):
                self.memory_gb = max(self.memory_gb or 0.0, memory_gb)
            case Note():
                self.notes += 1
        return True

    def _step(self, done: StepDone) -> None:
        self.first_step = done.step if self.first_step is None else self.first_step
        self.step, self.loss, self.steps = done.step, done.loss, self.steps + 1
        if self.steps > WARM_UP:
            self.timed += 1
            self.wall_s += done.wall_s
            self.tokens += done.tokens
            if done.virtual_s is not None:
                self.emulated, self.virtual_s = True, self.virtual_s + done.virtual_s

    @property
    def step_s(self) -> float | None:
        """Mean time of a step: of the emulated clock where there is one."""
        if not self.timed:
            return None
        return (self.virtual_s if self.emulated else self.wall_s) / self.timed

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens trained a second of steps."""
        spent_s = self.virtual_s if self.emulated else self.wall_s
        return self.tokens / spent_s if spent_s > 0 else None

    def tokens_to_do(self, train: TrainSpec) -> int:
        """Count the tokens from this generation's first step to the job's last."""
        done = 0 if self.first_step is None else self.first_step - 1
        return max(0, train.steps - done) * train.global_batch_size * train.sequence_length

    def figures(self, price_per_hour: float | None = None, held_s: float = 0.0) -> Figures:
        """Give what was measured so far. price_per_hour: of all chips, which were held for held_s.

        Emulated chips cost their own time, that of the steps, not the time in which they were played.
        """
        step_s, rate = self.step_s, self.tokens_per_second
        cost = per_trillion = None
        if price_per_hour is not None:
            spent_s = (step_s or 0.0) * self.steps if self.emulated else held_s
            cost = price_per_hour * spent_s / HOUR_S
            per_trillion = price_per_hour / HOUR_S / rate * TRILLION if rate else None
        return Figures(
            step_ms=None if step_s is None else step_s * 1000,
            tokens_per_second=rate,
            memory_gb=self.memory_gb,
            cost=cost,
            cost_per_trillion_tokens=per_trillion,
            steps=self.steps or None,
            loss=self.loss,
            emulated=self.emulated,
        )


def write_roll(roll: Roll) -> str:
    """Write a roll-up as JSON."""
    return msgspec.json.encode(roll).decode()


def read_roll(text: str | None) -> Roll:
    """Read a roll-up; an empty one where there is none."""
    return msgspec.json.decode(text, type=Roll) if text else Roll()
