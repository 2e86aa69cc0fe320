"""Put the parts of one rank together: groups, stage, exchange, optimizer, pipeline.

Only builds; the loop is `train.trainer`.
"""

from dataclasses import dataclass
from datetime import timedelta

import torch

from argosy.comm.clock import Clock
from argosy.comm.groups import Seat, make_groups
from argosy.contracts.messages import Launch
from argosy.model.shape import ModelShape
from argosy.train.exchange import GradientExchange
from argosy.train.optimizer import BlockOptimizer
from argosy.train.pipeline import Pipeline
from argosy.train.stage import DTYPES, make_stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All that one rank trains with."""

    exchange: GradientExchange
    optimizer: BlockOptimizer
    pipeline: Pipeline


def build(
    launch: Launch, seat: Seat, shape: ModelShape, clock: Clock, device: torch.device, timeout: timedelta
) -> Parts:
    """Build a rank's parts; every rank of the plan calls it.

    Raises BadInputError when the initial weights are not this model's.
    """
    plan, job = launch.plan, launch.job
    groups = make_groups(plan, seat, timeout)
    stage = make_stage(plan, job, seat, shape, groups.tensor, device)
    exchange = GradientExchange(plan, seat, stage, groups, DTYPES[plan.reduce_dtype])
    return Parts(
        exchange=exchange,
        optimizer=BlockOptimizer(job.train, exchange),
        pipeline=Pipeline(plan, seat, shape, stage.models, groups.pipeline, clock, device),
    )
