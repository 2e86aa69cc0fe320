"""One stage's part in a pipeline schedule, by torch.distributed.pipelining, told to the clock.

Which micro-batch runs when is the schedule's business; this file only builds it for a stage of a plan and announces
each forward and backward to the clock. Knows nothing of optimizers or files.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.train.decoder import StageModel

_SCHEDULES: dict[str, type[PipelineScheduleSingle]] = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}


class ClockedStage(PipelineStage):
    """A pipeline stage that tells the clock when its forwards and backwards begin and end."""

    clock: Clock

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run one micro-batch forward; its input has arrived."""
        self.clock.begin("F", fwd_chunk_id)
        output = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self.clock.end("F", fwd_chunk_id)
        return output

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """Run one micro-batch backward; its output gradient has arrived."""
        self.clock.begin("B", bwd_chunk_id, last=bool(kwargs.get("last_backward", False)))
        super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)
        self.clock.end("B", bwd_chunk_id)


class Pipeline:
    """One rank's stage and schedule; `run` does all micro-batches of a step, forward and backward.

    Gradients add up in the parameters; the loss is the sum over tokens divided by the global batch's token count, so
    gradients of all replicas simply add.
    """

    def __init__(
        self,
        plan: Plan,
        seat: Seat,
        shape: ModelShape,
        model: StageModel,
        group: ProcessGroup,
        clock: Clock,
        device: torch.device,
    ) -> None:
        self.replica = plan.replicas[seat.replica]
        self.first = seat.stage == 0
        self.last = seat.stage == len(self.replica.stages) - 1
        self._tokens = plan.global_batch_size * plan.sequence_length
        batch = self.replica.microbatch_size
        hidden = torch.empty(
            batch, plan.sequence_length, shape.hidden_size, dtype=model.compute_dtype, device=device, requires_grad=True
        )
        tokens = torch.empty(batch, plan.sequence_length, dtype=torch.int64, device=device)
        stage = ClockedStage(
            model,
            seat.stage,
            len(self.replica.stages),
            device,
            input_args=(tokens if self.first else hidden,),
            output_args=(_logits_like(plan, batch, shape, model, device) if self.last else hidden,),
            group=group,
        )
        stage.clock = clock
        self._schedule = _SCHEDULES[plan.schedule](
            stage, self.replica.microbatches, loss_fn=self._loss, scale_grads=False
        )

    def run(self, rows: Tensor | None) -> Tensor:
        """Run a step on this replica's rows [sequences, S + 1]; ranks in the middle need none.

        Gives this replica's share of the global mean loss on the last stage, else 0.
        """
        losses: list[Tensor] = []
        inputs = (rows[:, :-1],) if self.first and rows is not None else ()
        targets = rows[:, 1:] if self.last and rows is not None else None
        self._schedule.step(*inputs, target=targets, losses=losses if self.last else None, return_outputs=False)
        return torch.stack([loss.detach() for loss in losses]).sum() if losses else torch.zeros(())

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        total = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")
        return total / self._tokens


def _logits_like(plan: Plan, batch: int, shape: ModelShape, model: StageModel, device: torch.device) -> Tensor:
    sizes = (batch, plan.sequence_length, shape.vocab_size)
    # Never sent; torch wants an example of every output, so give one that takes no memory.
    return torch.empty(1, dtype=model.compute_dtype, device=device, requires_grad=True).expand(sizes)
