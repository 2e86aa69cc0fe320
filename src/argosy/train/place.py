"""What a rank finds where it runs: its torch device, its clock and trace, its peak memory.

Knows nothing of what is trained.
"""

import resource
from pathlib import Path

import torch

from argosy.comm.clock import Board, Clock, EmulatedClock, RealClock
from argosy.comm.groups import Seat
from argosy.comm.traced import TracedClock
from argosy.contracts.messages import Launch


def clock_of(launch: Launch, seat: Seat) -> Clock:
    """Give the clock a rank runs by: emulated where the launch names a board, traced where it asks for it."""
    clock: Clock = RealClock()
    if launch.board:
        clock = EmulatedClock(launch.plan, seat, Board(Path(launch.board), launch.plan))
    return TracedClock(clock, seat) if launch.trace else clock


def write_trace(clock: Clock, launch: Launch) -> None:
    """Write down what a traced clock noted; another clock noted nothing."""
    if isinstance(clock, TracedClock):
        clock.write(Path(launch.directory) / "trace")


def device_of(launch: Launch, seat: Seat) -> torch.device:
    """Choose the torch device of a seat's chip, and make it current."""
    stage = launch.plan.replicas[seat.replica].stages[seat.stage]
    kind = launch.devices.get(stage.chip_class, "cpu")
    if kind == "cpu":
        return torch.device("cpu")
    local = next((place.chip for place in launch.plan.placement if place.rank == seat.rank), 0)
    device = torch.device(kind, local)
    torch.get_device_module(kind).set_device(device)
    return device


def backend_of(device: torch.device) -> str:
    """Name the torch.distributed backends of a device; small host-side talk goes over gloo."""
    return "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{_BACKENDS.get(device.type, 'nccl')}"


_BACKENDS = {"cuda": "nccl", "npu": "hccl", "xpu": "xccl", "hpu": "hccl", "mlu": "cncl", "musa": "mccl"}


def peak_memory_gb(device: torch.device) -> float:
    """Tell the most memory this rank has had: of the process on a CPU, else of the device."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return float(torch.get_device_module(device.type).max_memory_allocated(device)) / 1e9
