"""One rank's part in a pipeline schedule, by torch.distributed.pipelining, told to the clock.

Which micro-batch runs when is the schedule's business; this file only builds it for the stages of a rank and announces
each forward and backward to the clock. Knows nothing of optimizers or files.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.train.decoder import StageModel

_OF_ONE_STAGE: dict[str, type[PipelineScheduleSingle]] = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
# With one stage a rank torch's interleaved zero-bubble is ZB-H1.
_OF_SEVERAL: dict[str, type[PipelineScheduleMulti]] = {
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
}


class ClockedStage(PipelineStage):
    """A pipeline stage that tells the clock when its forwards and backwards begin and end."""

    clock: Clock

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run one micro-batch forward; its input has arrived."""
        self.clock.begin("F", self.stage_index, fwd_chunk_id)
        output = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        self.clock.end("F", self.stage_index, fwd_chunk_id)
        return output

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """Run one micro-batch backward; its output gradient has arrived."""
        self.clock.begin("B", self.stage_index, bwd_chunk_id, last=bool(kwargs.get("last_backward", False)))
        super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)
        self.clock.end("B", self.stage_index, bwd_chunk_id)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """Make the weights' gradients of one micro-batch, where the schedule runs them apart."""
        self.clock.begin("W", self.stage_index, bwd_chunk_id, last=bool(kwargs.get("last_backward", False)))
        super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)
        self.clock.end("W", self.stage_index, bwd_chunk_id)


class Pipeline:
    """One rank's stages and schedule; `run` does all micro-batches of a step, forward and backward.

    Gradients add up in the parameters; the loss is the sum over tokens divided by the global batch's token count, so
    gradients of all replicas simply add.
    """

    def __init__(
        self,
        plan: Plan,
        seat: Seat,
        shape: ModelShape,
        models: Sequence[StageModel],
        group: ProcessGroup,
        clock: Clock,
        device: torch.device,
    ) -> None:
        self.replica = plan.replicas[seat.replica]
        self.first = seat.stage == 0
        places = len(plan.places(self.replica))
        self.last = seat.stage == places - 1
        self._tokens = plan.global_batch_size * plan.sequence_length
        stages = []
        for index, model in enumerate(models):
            number = seat.stage + index * places
            takes, gives = _examples(plan, seat, shape, model, device, number)
            stage = ClockedStage(
                model,
                number,
                len(self.replica.stages),
                device,
                input_args=(takes,),
                output_args=(gives,),
                group=group,
            )
            stage.clock = clock
            stages.append(stage)
        how: dict[str, Any] = {"loss_fn": self._loss, "scale_grads": False}
        self._schedule: PipelineScheduleSingle | PipelineScheduleMulti
        if plan.schedule in _OF_SEVERAL:
            self._schedule = _OF_SEVERAL[plan.schedule](list(stages), self.replica.microbatches, **how)
        else:
            self._schedule = _OF_ONE_STAGE[plan.schedule](stages[0], self.replica.microbatches, **how)

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


def _examples(
    plan: Plan, seat: Seat, shape: ModelShape, model: StageModel, device: torch.device, stage: int
) -> tuple[Tensor, Tensor]:
    """Give an example of what a stage takes and of what it gives, for torch to know their sizes."""
    replica = plan.replicas[seat.replica]
    batch, length = replica.microbatch_size, plan.sequence_length
    dtype = model.compute_dtype
    hidden = torch.empty(batch, length, shape.hidden_size, dtype=dtype, device=device, requires_grad=True)
    tokens = torch.empty(batch, length, dtype=torch.int64, device=device)
    # Logits are never sent; torch wants an example of every output, so give one that takes no memory.
    logits = torch.empty(1, dtype=dtype, device=device, requires_grad=True).expand(batch, length, shape.vocab_size)
    return (tokens if stage == 0 else hidden), (logits if stage == len(replica.stages) - 1 else hidden)
