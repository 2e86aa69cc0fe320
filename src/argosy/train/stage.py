"""The part of the model that lies on one rank: built, split by TP, and filled with its first weights.

Knows nothing of gradients or of what other ranks do.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from argosy.comm.groups import Seat
from argosy.contracts.job import Job
from argosy.contracts.plan import Plan
from argosy.model.shape import ModelShape
from argosy.train.blocks import Block, Sizes, local_block
from argosy.train.decoder import StageModel
from argosy.train.initial import set_weights
from argosy.train.tensor_parallel import parallelize

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStage:
    """A stage's model on one rank.

    parameters: by name. whole_sizes: before TP split them. local: which block of each lies here.
    """

    model: StageModel
    parameters: dict[str, nn.Parameter]
    whole_sizes: dict[str, Sizes]
    local: dict[str, Block]


def make_stage(
    plan: Plan, job: Job, seat: Seat, shape: ModelShape, group: dist.ProcessGroup | None, device: torch.device
) -> LocalStage:
    """Build a rank's stage, split over its TP group, with its first weights.

    Raises BadInputError when the job's initial weights are not this model's.
    """
    stage = plan.replicas[seat.replica].stages[seat.stage]
    model = StageModel(
        shape,
        plan.units(stage),
        sequence_length=plan.sequence_length,
        compute_dtype=DTYPES[plan.precision],
        recompute=stage.recompute == "full",
    ).to(device)
    whole_sizes: dict[str, Sizes] = {name: tuple(p.shape) for name, p in model.named_parameters()}
    if group is not None:
        parallelize(model, group, device.type)
    local = {name: local_block(plan, seat, name, sizes) for name, sizes in whole_sizes.items()}
    parameters = dict(model.named_parameters())
    set_weights(parameters, local, whole_sizes, job, shape)
    return LocalStage(model=model, parameters=parameters, whole_sizes=whole_sizes, local=local)
