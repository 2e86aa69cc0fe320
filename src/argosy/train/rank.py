"""The life of one rank: check that the plan can be run, join the world, train, leave.

The fork server calls `run_rank`; everything it needs is in the Launch.
"""

import os
import resource
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from argosy.comm.clock import Board, Clock, EmulatedClock, RealClock
from argosy.comm.groups import Seat, join_world, seat_of
from argosy.comm.traced import TracedClock
from argosy.contracts.messages import Finished, Launch, Upward
from argosy.model.config import read_config
from argosy.model.shape import ModelShape
from argosy.train.refusal import check_runnable
from argosy.train.trainer import Trainer

PEER_TIMEOUT = timedelta(minutes=10)


def run_rank(launch: Launch, rank: int, report: Callable[[Upward], None]) -> int:
    """Run one rank to its end; gives its exit code.

    Raises ArgosyError with the text for the user; the caller reports it.
    """
    shape = read_config(launch.model_config, launch.job.model)
    check_runnable(launch.plan, shape)
    seat = seat_of(launch.plan, rank)
    device = _device(launch, seat)
    join_world(
        host=launch.store_host,
        port=launch.store_port,
        prefix=f"{launch.attempt}/{launch.generation}",
        rank=rank,
        world_size=launch.plan.world_size,
        backend="gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:nccl",
        timeout=PEER_TIMEOUT,
    )
    try:
        return _train(launch, seat, shape, device, report)
    finally:
        dist.destroy_process_group()


def _train(
    launch: Launch, seat: Seat, shape: ModelShape, device: torch.device, report: Callable[[Upward], None]
) -> int:
    clock = _clock(launch, seat)
    trainer = Trainer(launch, seat, shape, clock, device, PEER_TIMEOUT)
    step = trainer.run(report, os.getpid())
    if isinstance(clock, TracedClock):
        clock.write(Path(launch.directory) / "trace")
    # Nobody leaves while a peer may still wait for him.
    dist.barrier()
    report(Finished(step=step, memory_gb=_peak_memory_gb(device)))
    return 0


def _clock(launch: Launch, seat: Seat) -> Clock:
    clock: Clock = RealClock()
    if launch.board:
        clock = EmulatedClock(launch.plan, seat, Board(Path(launch.board), launch.plan))
    return TracedClock(clock, seat) if launch.trace else clock


def _device(launch: Launch, seat: Seat) -> torch.device:
    """Choose the torch device of a seat's chip, and make it current."""
    stage = launch.plan.replicas[seat.replica].stages[seat.stage]
    kind = launch.devices.get(stage.chip_class, "cpu")
    if kind == "cpu":
        return torch.device("cpu")
    local = next((place.chip for place in launch.plan.placement if place.rank == seat.rank), 0)
    device = torch.device(kind, local)
    torch.get_device_module(kind).set_device(device)
    return device


def _peak_memory_gb(device: torch.device) -> float:
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return float(torch.get_device_module(device.type).max_memory_allocated(device)) / 1e9
