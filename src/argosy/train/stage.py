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
    """What of the model lies on one rank.

    models: one for each of its virtual stages, ascending. parameters: of all, by name. whole_sizes: before TP split
    them. local: which block of each lies here.
    """

    models: tuple[StageModel, ...]
    parameters: dict[str, nn.Parameter]
    whole_sizes: dict[str, Sizes]
    local: dict[str, Block]


def make_stage(
    plan: Plan, job: Job, seat: Seat, shape: ModelShape, group: dist.ProcessGroup | None, device: torch.device
) -> LocalStage:
    """Build a rank's stages, split over its TP group, with their first weights.

    Raises BadInputError when the job's initial weights are not this model's.
    """
    models = []
    whole_sizes: dict[str, Sizes] = {}
    for stage in plan.stages_at(plan.replicas[seat.replica], seat.stage):
        model = StageModel(
            shape,
            plan.units(stage),
            sequence_length=plan.sequence_length,
            compute_dtype=DTYPES[plan.precision],
            recompute=stage.recompute == "full",
        ).to(device)
        whole_sizes |= {name: tuple(p.shape) for name, p in model.named_parameters()}
        if group is not None:
            parallelize(model, group, device.type)
        models.append(model)
    local = {name: local_block(plan, seat, name, sizes) for name, sizes in whole_sizes.items()}
    parameters = {name: parameter for model in models for name, parameter in model.named_parameters()}
    set_weights(parameters, local, whole_sizes, job, shape)
    return LocalStage(models=tuple(models), parameters=parameters, whole_sizes=whole_sizes, local=local)
