"""The life of one rank: check that the plan can be run, join the world, train, leave.

The fork server calls `run_rank`; everything it needs is in the Launch.
"""

import os
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from argosy.comm.groups import join_world, seat_of
from argosy.contracts.messages import LEFT_CODE, Finished, Launch, Note, Upward
from argosy.model.config import read_config
from argosy.train.build import build
from argosy.train.diary import Diary
from argosy.train.place import backend_of, clock_of, device_of, peak_memory_gb, write_trace
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
    diary = Diary(launch, seat, report)
    device = device_of(launch, seat)
    clock = clock_of(launch, seat)
    join_world(
        host=launch.store_host,
        port=launch.store_port,
        prefix=f"{launch.attempt}/{launch.generation}",
        rank=rank,
        world_size=launch.plan.world_size,
        backend=backend_of(device),
        timeout=PEER_TIMEOUT,
    )
    parts = build(launch, seat, shape, clock, device, PEER_TIMEOUT)
    step = Trainer(launch, seat, parts, clock, device).run(diary, os.getpid())
    write_trace(clock, launch)
    # Nobody leaves while a peer may still wait for him.
    dist.barrier()
    done = step >= launch.job.train.steps
    if done:
        diary(Finished(step=step, memory_gb=peak_memory_gb(device)))
    else:
        diary(Note(text=f"asked to leave: left after step {step}"))
    dist.destroy_process_group()
    return 0 if done else LEFT_CODE
