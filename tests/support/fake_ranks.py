"""Ranks without training, for tests of what starts and ends them: each function is an entry of the fork server."""

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from argosy.contracts.errors import UserCodeError
from argosy.contracts.messages import Finished, Launch, Note, Ready, StepDone, Upward

Report = Callable[[Upward], None]


def train(launch: Launch, rank: int, report: Report) -> int:
    """Report as a rank does that trains for three steps."""
    print(f"rank {rank} prints", flush=True)
    report(Ready(step=0, pid=os.getpid()))
    for step in range(3):
        report(StepDone(step=step, loss=1.0, norm=1.0, learning_rate=0.1, tokens=8, wall_s=0.1))
    report(Finished(step=3, memory_gb=0.0))
    return 0


def wait(launch: Launch, rank: int, report: Report) -> int:
    """Say Ready and never end."""
    report(Ready(step=0, pid=os.getpid()))
    while True:
        signal.pause()


def wait_stubbornly(launch: Launch, rank: int, report: Report) -> int:
    """As `wait`, deaf to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return wait(launch, rank, report)


def wait_with_child(launch: Launch, rank: int, report: Report) -> int:
    """Start a process of its own, name it in a Note, and wait."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    report(Note(text=str(child.pid)))
    return wait(launch, rank, report)


def fail_first(launch: Launch, rank: int, report: Report) -> int:
    """Rank 0 blames the user's data, the others lose it or hang."""
    if rank == 0:
        raise UserCodeError("corpus.txt: no text in it")
    if rank == 1:
        raise RuntimeError("Connection closed by peer [127.0.0.1]:4711")
    return wait(launch, rank, report)


def exit_with_rank(launch: Launch, rank: int, report: Report) -> int:
    """Return the rank's number as exit code."""
    return rank


def describe(launch: Launch, rank: int, report: Report) -> int:
    """Tell what the process looks like from inside."""
    descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    report(Note(text=f"descriptors {len(descriptors)} threads {os.environ.get('OMP_NUM_THREADS', '')}"))
    report(Note(text=f"store {launch.store_host}:{launch.store_port} directory {launch.directory}"))
    return 0


def show_board(launch: Launch, rank: int, report: Report) -> int:
    """Write the rank into the shared board and tell how large the file is."""
    with open(launch.board, "r+b") as file, mmap.mmap(file.fileno(), 4096) as board:
        board[rank] = rank + 1
        report(Note(text=f"{Path(launch.board).stat().st_size} {board[rank]}"))
    return 0


def flood(launch: Launch, rank: int, report: Report) -> int:
    """Report more than every buffer on the way holds."""
    for number in range(400):
        report(Note(text=f"{number} " + "x" * 16_000))
    return 0


def garble(launch: Launch, rank: int, report: Report) -> int:
    """Write a line that is no report, then a good one."""
    pipe = next(int(name) for name in os.listdir("/proc/self/fd") if "pipe" in _target(name) and int(name) > 2)
    os.write(pipe, b"no json\n")
    report(Note(text="still here"))
    return 0


def reduce(launch: Launch, rank: int, report: Report) -> int:
    """Sum the ranks' numbers over gloo."""
    total = _join_world(launch, rank)
    report(Note(text=f"sum {total}"))
    return 0


def lose_rank_1(launch: Launch, rank: int, report: Report) -> int:
    """Reduce for ever, while rank 1 kills itself as the kernel would."""
    import torch
    import torch.distributed as dist

    _join_world(launch, rank)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.all_reduce(torch.ones(1000))


def _join_world(launch: Launch, rank: int) -> int:
    import torch
    import torch.distributed as dist

    store = dist.TCPStore(launch.store_host, launch.store_port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=launch.plan.world_size)
    number = torch.tensor(rank)
    dist.all_reduce(number)
    return int(number)


def _target(name: str) -> str:
    try:
        return str(Path("/proc/self/fd", name).readlink())
    except OSError:
        return ""
