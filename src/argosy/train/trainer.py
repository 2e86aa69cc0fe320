"""One rank's training loop: batch, pipeline, exchange, clip, update, report, checkpoint.

The plan says where things run; nothing here depends on it for what is computed.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat
from argosy.contracts.errors import UserCodeError
from argosy.contracts.messages import Launch, Ready, StepDone, Upward
from argosy.train.build import Parts
from argosy.train.data.tokens import TokenSet
from argosy.train.optimizer import learning_rate
from argosy.train.saving import Saving


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step gave: mean loss per token of the global batch, gradient norm before clipping, learning rate used.

    leaves: a rank was asked to leave, so all do.
    """

    loss: float
    norm: float
    rate: float
    leaves: bool = False


class Trainer:
    """One rank of one attempt."""

    def __init__(self, launch: Launch, seat: Seat, parts: Parts, clock: Clock, device: torch.device) -> None:
        self.seat, self.clock, self.device = seat, clock, device
        self.plan, self.spec = launch.plan, launch.job.train
        self.replica = launch.plan.replicas[seat.replica]
        self.tokens = TokenSet(launch.tokens, sequence_length=launch.plan.sequence_length)
        self.exchange, self.optimizer, self.pipeline = parts.exchange, parts.optimizer, parts.pipeline
        self.saving = Saving(launch, parts, seat.rank, device)

    def run(self, report: Callable[[Upward], None], pid: int) -> int:
        """Train from the newest checkpoint, or the start, to the last step, or until asked to leave.

        Gives the step reached.
        """
        first = step = self.saving.resume(report)
        self._start_clock()
        report(Ready(step=step, pid=pid))
        while step < self.spec.steps:
            began_s, virtual_ms = time.monotonic(), self.clock.now_ms()
            outcome = self.step(step)
            step += 1
            report(self._done(step, outcome, began_s, virtual_ms))
            late = step == first + 1  # the first step connects every pair of ranks
            if self.saving.is_due(step) or outcome.leaves:
                self.saving.save(step, report)
                late = True
            if outcome.leaves:
                return step
            if late:
                # Took wall time that the emulated chips did not see.
                self._start_clock()
        return step

    def step(self, step: int) -> Outcome:
        """Run one optimizer step on the `step`-th global batch, counted from 0."""
        self.exchange.begin(self.replica.microbatches)
        loss = self.pipeline.run(self._rows(step))
        self.exchange.finish()
        loss_sum, norm, leaves = self._totals(loss)
        self._check_finite(step + 1, loss_sum, norm)
        self.clock.barrier()
        rate = learning_rate(self.spec, step)
        self.optimizer.step(norm, rate)
        self.clock.updated()
        self.exchange.spread()
        if self.plan.zero_stage == 1 and self.plan.emulated:
            dist.barrier()
            self.clock.gathered()
        return Outcome(loss=loss_sum, norm=norm, rate=rate, leaves=leaves)

    def _rows(self, step: int) -> torch.Tensor | None:
        """Read this replica's share of the step's batch; ranks in the middle of the pipeline need none."""
        if not (self.pipeline.first or self.pipeline.last):
            return None
        before = sum(replica.sequences for replica in self.plan.replicas[: self.seat.replica])
        rows = self.tokens.rows(step, self.plan.global_batch_size, self.spec.seed, before, self.replica.sequences)
        return torch.from_numpy(rows).to(self.device)

    def _totals(self, loss: torch.Tensor) -> tuple[float, float, bool]:
        """Sum loss, squared norm and wishes to leave over all ranks: a small all-reduce, also the step's barrier."""
        mine = torch.zeros(3, dtype=torch.float64)
        mine[0] = loss.cpu().double() if self.pipeline.last and self.seat.tp_index == 0 else 0.0
        mine[1] = self.optimizer.squared_norm()
        mine[2] = float(self.saving.leaving.asked)
        # On the host: some devices have no float64, and all numbers are wanted here at once.
        dist.all_reduce(mine)
        return float(mine[0]), float(mine[1]) ** 0.5, bool(mine[2])

    def _check_finite(self, step: int, loss: float, norm: float) -> None:
        """Stop before numbers that are none reach the parameters; all ranks see the same two and stop alike."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        raise UserCodeError(
            f"step {step}: the loss is {loss:g} and the gradient's norm {norm:g}; training has diverged. Nothing of "
            "this step was kept and earlier checkpoints are sound. Lower train.learning_rate (now "
            f"{self.spec.learning_rate:g}) or raise train.warmup_steps (now {self.spec.warmup_steps})"
        )

    def _start_clock(self) -> None:
        dist.barrier()
        self.clock.start()
        dist.barrier()

    def _done(self, step: int, outcome: Outcome, began_s: float, virtual_ms: float | None) -> StepDone:
        now_ms = self.clock.now_ms()
        return StepDone(
            step=step,
            loss=outcome.loss,
            norm=outcome.norm,
            learning_rate=outcome.rate,
            tokens=self.plan.global_batch_size * self.plan.sequence_length,
            wall_s=time.monotonic() - began_s,
            virtual_s=None if now_ms is None or virtual_ms is None else (now_ms - virtual_ms) / 1e3,
        )
