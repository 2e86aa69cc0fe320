"""One rank's training loop: batch, pipeline, exchange, clip, update, report, checkpoint.

Puts the parts of this room together for one seat of a plan. The plan says where things run; nothing here depends on it for what is
computed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from argosy.comm.clock import Clock
from argosy.comm.groups import Groups, Seat, make_groups
from argosy.contracts.messages import Launch, Note, Ready, Saved, StepDone, Upward
from argosy.contracts.plan import Plan, Replica, Stage
from argosy.model.shape import ModelShape
from argosy.train.blocks import Sizes, buckets_of, local_block
from argosy.train.checkpoint import CheckpointInfo, Checkpointer, checkpoints, read_info
from argosy.train.data.tokens import TokenSet
from argosy.train.decoder import StageModel
from argosy.train.exchange import GradientExchange
from argosy.train.initial import draw, fill
from argosy.train.optimizer import BlockOptimizer, learning_rate
from argosy.train.pipeline import Pipeline
from argosy.train.tensor_parallel import parallelize

COMPUTE_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step gave: mean loss per token of the global batch, gradient norm before clipping, learning rate used."""

    loss: float
    norm: float
    rate: float


class Trainer:
    """One rank of one attempt."""

    def __init__(
        self,
        launch: Launch,
        seat: Seat,
        shape: ModelShape,
        clock: Clock,
        device: torch.device,
        timeout: timedelta,
    ) -> None:
        self.launch, self.seat, self.shape, self.clock, self.device = launch, seat, shape, clock, device
        plan = launch.plan
        self.plan, self.spec = plan, launch.job.train
        self.replica: Replica = plan.replicas[seat.replica]
        self.stage: Stage = self.replica.stages[seat.stage]
        self.tokens = TokenSet(launch.tokens, sequence_length=plan.sequence_length)
        self.groups: Groups = make_groups(plan, seat, timeout)
        self.model = build_stage(plan, self.stage, shape).to(device)
        self.whole_sizes: dict[str, Sizes] = {n: tuple(p.shape) for n, p in self.model.named_parameters()}
        if self.groups.tensor is not None:
            parallelize(self.model, self.groups.tensor, device.type)
        parameters = dict(self.model.named_parameters())
        local = {name: local_block(plan, seat, name, sizes) for name, sizes in self.whole_sizes.items()}
        fill(parameters, local, lambda name: draw(shape, self.spec.seed, name, self.whole_sizes[name]))
        self.exchange = GradientExchange(
            parameters,
            local,
            buckets_of(plan, seat, self.whole_sizes),
            self.groups,
            num_layers=plan.num_layers,
            reduce_dtype=COMPUTE_DTYPES[plan.reduce_dtype],
        )
        self.optimizer = BlockOptimizer(self.spec, self.exchange)
        self.pipeline = Pipeline(plan, seat, shape, self.model, self.groups.pipeline, clock, device)
        self.checkpointer = self._checkpointer()

    def run(self, report: Callable[[Upward], None], pid: int) -> int:
        """Train from the newest checkpoint, or the start, to the last step. Gives the step reached."""
        step = self.resume(report)
        self._start_clock()
        report(Ready(step=step, pid=pid))
        saved_at = time.monotonic()
        while step < self.spec.steps:
            began, virtual = time.monotonic(), self.clock.now_ms()
            outcome = self.step(step)
            step += 1
            if self.seat.rank == 0:
                report(self._done(step, outcome, began, virtual))
            if self._is_due(step, saved_at):
                self.save(step, report)
                saved_at = time.monotonic()
                self._start_clock()
        return step

    def step(self, step: int) -> Outcome:
        """Run one optimizer step: the `step`-th global batch, counted from 0."""
        self.exchange.begin(self.replica.microbatches)
        loss = self.pipeline.run(self._rows(step))
        self.exchange.finish()
        loss_sum, norm = self._totals(loss)
        self.clock.barrier()
        rate = learning_rate(self.spec, step)
        self.optimizer.step(norm, rate)
        self.clock.updated()
        self.exchange.spread()
        if self.plan.zero_stage == 1 and self.plan.emulated:
            dist.barrier()
            self.clock.gathered()
        return Outcome(loss=loss_sum, norm=norm, rate=rate)

    def resume(self, report: Callable[[Upward], None]) -> int:
        """Load the newest checkpoint if the job says so. Gives the step to run next."""
        spec = self.launch.job.checkpoint
        found = checkpoints(Path(spec.to)) if spec is not None and spec.resume else ()
        if self.checkpointer is None or not found:
            return 0
        newest = found[-1]
        self.checkpointer.load(newest)
        step = read_info(newest).step
        if self.seat.rank == 0:
            report(Note(text=f"resumed from {newest} at step {step}"))
        return step

    def save(self, step: int, report: Callable[[Upward], None]) -> None:
        """Write a checkpoint of the state after `step` steps."""
        if self.checkpointer is None:
            return
        began = time.monotonic()
        tokens = step * self.plan.global_batch_size * self.plan.sequence_length
        info = CheckpointInfo(
            step=step,
            model=self.shape.name,
            seed=self.spec.seed,
            tokens=tokens,
            model_config=self.launch.model_config,
        )
        path = self.checkpointer.save(info)
        if self.seat.rank == 0:
            report(Saved(step=step, path=str(path), wall_s=time.monotonic() - began))

    def _checkpointer(self) -> Checkpointer | None:
        spec = self.launch.job.checkpoint
        if spec is None:
            return None
        return Checkpointer(Path(spec.to), self.whole_sizes, self.exchange, self.optimizer, keep=spec.keep)

    def _rows(self, step: int) -> torch.Tensor | None:
        if not (self.pipeline.first or self.pipeline.last):
            return None
        before = sum(replica.sequences for replica in self.plan.replicas[: self.seat.replica])
        rows = self.tokens.rows(step, self.plan.global_batch_size, self.spec.seed, before, self.replica.sequences)
        return torch.from_numpy(rows).to(self.device)

    def _totals(self, loss: torch.Tensor) -> tuple[float, float]:
        """Sum loss and squared norm over all ranks: one small all-reduce that is also the step's barrier."""
        mine = torch.zeros(2, dtype=torch.float64)
        mine[0] = loss.double().cpu() if self.pipeline.last and self.seat.tp_index == 0 else 0.0
        mine[1] = self.optimizer.squared_norm()
        total = mine.to(self.device)
        dist.all_reduce(total)
        return float(total[0]), float(total[1]) ** 0.5

    def _start_clock(self) -> None:
        dist.barrier()
        self.clock.start()
        dist.barrier()

    def _is_due(self, step: int, saved_at: float) -> bool:
        """Decide alike on all ranks whether to save now; the last step always saves."""
        spec = self.launch.job.checkpoint
        if spec is None:
            return False
        if step == self.spec.steps or (spec.every_steps is not None and step % spec.every_steps == 0):
            return True
        if spec.every_s is None:
            return False
        due = torch.tensor([float(time.monotonic() - saved_at >= spec.every_s)], device=self.device)
        dist.broadcast(due, src=0)
        return bool(due.item())

    def _done(self, step: int, outcome: Outcome, began: float, virtual_before: float | None) -> StepDone:
        virtual_after = self.clock.now_ms()
        return StepDone(
            step=step,
            loss=outcome.loss,
            norm=outcome.norm,
            learning_rate=outcome.rate,
            tokens=self.plan.global_batch_size * self.plan.sequence_length,
            wall_s=time.monotonic() - began,
            virtual_s=None
            if virtual_after is None or virtual_before is None
            else (virtual_after - virtual_before) / 1e3,
        )


def build_stage(plan: Plan, stage: Stage, shape: ModelShape) -> StageModel:
    """Make the plain model of one stage."""
    return StageModel(
        shape,
        plan.units(stage),
        sequence_length=plan.sequence_length,
        compute_dtype=COMPUTE_DTYPES[plan.precision],
        recompute=stage.recompute == "full",
    )
