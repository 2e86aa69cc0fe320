"""Real jobs of a few gloo ranks that hang, each by one fault, and the dumps, stacks and process states they leave.

    python benchmarks/hang_job.py FAULT FOLDER

Ranks are forked from this process, which loads torch once. Once the healthy ranks are inside of what will not end,
every rank that still can writes its Flight Recorder dump (`rank_N.json`, and as pickle `nccl_trace_rank_N`), stacks are
taken from outside the interpreter (`stack_rank_N.txt`), `states.json` says what the kernel knows of the processes, and
all are killed.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

STEPS = 6
STEADY_DUMPS = 3
DEADLINE_S = 180.0
"""No job is watched for longer: what is not as it should be by then is an error, not a case to judge."""
ELEMENTS = 4_096


@dataclass
class Rank:
    """What a rank's program uses. go: set when the parent says so."""

    rank: int
    size: int
    folder: Path
    report: int
    go: threading.Event = field(default_factory=threading.Event)

    def tell(self, text: str) -> None:
        """Report one line to the parent."""
        os.write(self.report, f"{text}\n".encode())

    def step(self, elements: int = ELEMENTS) -> None:
        """Do one step: an all-reduce over all ranks."""
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.ones(elements))

    def steps(self, count: int = STEPS) -> None:
        """Do some healthy steps, then tell that the next one comes."""
        for _ in range(count):
            self.step()
        self.tell("last")


def skips(rank: Rank) -> None:
    """Rank 2 leaves one all-reduce out and is in its next work while the others are inside."""
    rank.steps()
    if rank.rank != 2:
        rank.step()
    _forever(rank)


def other_operation(rank: Rank) -> None:
    """Rank 1 leaves an all-reduce out and comes to the broadcast behind it."""
    import torch
    import torch.distributed as dist

    rank.steps()
    if rank.rank != 1:
        dist.all_reduce(torch.ones(ELEMENTS))
    dist.broadcast(torch.ones(ELEMENTS), src=0)
    _forever(rank)


def smaller_size(rank: Rank) -> None:
    """Rank 3 puts fewer elements into an all-reduce than the others."""
    rank.steps()
    rank.step(ELEMENTS // 2 if rank.rank == 3 else ELEMENTS)
    rank.step()
    _forever(rank)


def larger_size(rank: Rank) -> None:
    """Rank 3 puts more elements into an all-reduce than the others."""
    rank.steps()
    rank.step(2 * ELEMENTS if rank.rank == 3 else ELEMENTS)
    rank.step()
    _forever(rank)


def stopped_before(rank: Rank) -> None:
    """Rank 2 is stopped before it enters."""
    rank.steps()
    if rank.rank == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    rank.step()


def stopped_inside(rank: Rank) -> None:
    """Rank 1 is stopped inside, while it waits for rank 0, which then enters too."""
    rank.steps()
    if rank.rank == 0:
        rank.go.wait()
    rank.step()


def holds_lock(rank: Rank) -> None:
    """Rank 2 calls C code that never returns and keeps the interpreter's lock."""
    rank.steps()
    if rank.rank == 2:
        ctypes.PyDLL(None).pause()
    rank.step()


def dies(rank: Rank) -> None:
    """Rank 3 is killed before it enters."""
    rank.steps()
    if rank.rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    rank.step()


def leaves_early(rank: Rank) -> None:
    """Rank 3 has one batch fewer and ends normally."""
    rank.steps()
    if rank.rank == 3:
        os._exit(0)
    rank.step()


def slow(rank: Rank) -> None:
    """Rank 1 works longer than the others in every step."""
    for _ in range(20):
        if rank.rank == 1:
            time.sleep(0.03)
        rank.step()
    rank.tell("last")
    _forever(rank)


def data_stuck(rank: Rank) -> None:
    """Let a worker of rank 2's data loader read from where nothing ever comes."""
    from torch.utils.data import DataLoader, Dataset

    pipe = rank.folder / f"pipe-{rank.rank}"

    class Slow(Dataset[int]):
        """Numbers, the last of which comes from a pipe that nobody writes."""

        def __len__(self) -> int:
            return STEPS + 1

        def __getitem__(self, index: int) -> int:
            if index == STEPS and rank.rank == 2:
                os.mkfifo(pipe)
                return len(pipe.read_bytes())
            return index

    for number, _ in enumerate(DataLoader(Slow(), batch_size=1, num_workers=1, multiprocessing_context="fork")):
        rank.step()
        if number == STEPS - 1:
            rank.tell("last")
    rank.step()


def checkpoint_stuck(rank: Rank) -> None:
    """Rank 0 saves into a file system that does not answer: here a pipe that nobody reads."""
    import torch

    rank.steps()
    if rank.rank == 0:
        pipe = rank.folder / "pipe-checkpoint"
        os.mkfifo(pipe)
        torch.save({"weight": torch.ones(ELEMENTS)}, pipe)
    rank.step()


def two_groups(rank: Rank) -> None:
    """Of eight ranks in pairs, rank 5 goes missing; its pair waits for it, and everyone for the pair."""
    import torch
    import torch.distributed as dist

    pair = [rank.rank // 2 * 2, rank.rank // 2 * 2 + 1]
    group = dist.new_group(pair, use_local_synchronization=True, group_desc="tp")
    across = list(range(rank.rank % 2, rank.size, 2))
    other = dist.new_group(across, use_local_synchronization=True, group_desc="dp")
    for _ in range(STEPS):
        dist.all_reduce(torch.ones(ELEMENTS), group=group)
        dist.all_reduce(torch.ones(ELEMENTS), group=other)
    rank.tell("last")
    if rank.rank == 5:
        _forever(rank)
    dist.all_reduce(torch.ones(ELEMENTS), group=group)
    dist.all_reduce(torch.ones(ELEMENTS), group=other)


def _forever(rank: Rank) -> None:
    rank.tell("idle")
    threading.Event().wait()


@dataclass(frozen=True)
class Fault:
    """One fault. mute: ranks that can't write a dump. open: ranks that must be inside of a collective.

    ends: so many ranks end of it. wanted: the (class, culprit) that must be found; several where each is right.
    """

    program: Callable[[Rank], None]
    wanted: tuple[tuple[str, str], ...]
    size: int = 4
    mute: tuple[int, ...] = ()
    open: tuple[int, ...] = ()
    ends: int = 0


FAULTS = {
    "skips": Fault(skips, (("process.hang", "rank 2"),), open=(0, 1, 3)),
    "other_operation": Fault(other_operation, (("user.collective_mismatch", "rank 1"),), open=(0, 1, 2, 3)),
    # gloo ends the process that gets too much, which is the one that expected less
    "smaller_size": Fault(smaller_size, (("user.collective_mismatch", "rank 3"), ("process.died", "rank 3")), ends=1),
    "larger_size": Fault(larger_size, (("user.collective_mismatch", "rank 3"),), ends=1),
    "stopped_before": Fault(stopped_before, (("process.stopped", "rank 2"),), mute=(2,), open=(0, 1, 3)),
    "stopped_inside": Fault(stopped_inside, (("process.stopped", "rank 1"),), mute=(1,), open=(0, 2, 3)),
    "holds_lock": Fault(holds_lock, (("process.hang", "rank 2"),), mute=(2,), open=(0, 1, 3)),
    "dies": Fault(dies, (("process.died", "rank 3"),), mute=(3,), ends=1),
    "leaves_early": Fault(leaves_early, (("user.uneven_data", "rank 3"),), mute=(3,), ends=1),
    "slow": Fault(slow, (("process.slow_rank", "rank 1"),)),
    "data_stuck": Fault(data_stuck, (("process.data_stuck", "rank 2"),), open=(0, 1, 3)),
    "checkpoint_stuck": Fault(checkpoint_stuck, (("process.save_stuck", "rank 0"),), mute=(0,), open=(1, 2, 3)),
    "two_groups": Fault(two_groups, (("process.hang", "rank 5"),), size=8, open=(0, 1, 2, 3, 4, 6, 7)),
}


def start_rank(fault: Fault, rank: int, folder: Path) -> tuple[int, int, int]:
    """Fork one rank; gives its process id, the pipe to tell it things, and the one its reports come from."""
    commands_read, commands_write = os.pipe()
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(commands_read)
        os.close(report_write)
        return pid, commands_write, report_read
    os.setsid()  # so that it is killed with all that it started
    me = Rank(rank=rank, size=fault.size, folder=folder, report=report_write)
    try:
        _be_rank(me, fault, commands_read)
    except BaseException:
        (folder / f"err_rank_{rank}.log").write_text(traceback.format_exc())
        me.tell("failed")
        threading.Event().wait()
    os._exit(1)
    return 0, 0, 0


def _be_rank(me: Rank, fault: Fault, commands: int) -> None:
    import torch.distributed as dist

    with open(me.folder / f"stack_rank_{me.rank}.txt", "w") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        threading.Thread(target=_obey, args=(me, commands), daemon=True).start()
        store = dist.FileStore(str(me.folder / "store"), me.size)
        dist.init_process_group("gloo", store=store, rank=me.rank, world_size=me.size)
        fault.program(me)
        me.tell("done")
        threading.Event().wait()


def _obey(me: Rank, commands: int) -> None:
    """Write a dump whenever the parent asks, beside whatever the main thread does."""
    from torch._C import _distributed_c10d as c10d

    with os.fdopen(commands) as lines:
        for line in lines:
            if line == "go\n":
                me.go.set()
                continue
            dump = c10d._dump_fr_trace_json(True, False)
            text = dump if isinstance(dump, str) else dump.decode()
            (me.folder / f"rank_{me.rank}.json").write_text(text)
            (me.folder / f"nccl_trace_rank_{me.rank}").write_bytes(c10d._dump_fr_trace(True, False, False))
            me.tell("dumped")


class Watch:
    """The parent's end: pipes of all ranks, and what they reported."""

    def __init__(self, ranks: dict[int, tuple[int, int, int]]) -> None:
        self.ranks = ranks
        self.heard: dict[int, list[str]] = {rank: [] for rank in ranks}
        self._rest = dict.fromkeys(ranks, b"")
        self._until = time.monotonic() + DEADLINE_S

    def wait(self, done: Callable[[dict[int, list[str]]], bool]) -> None:
        """Listen until enough was heard. Raises TimeoutError."""
        of_pipe = {ranks[2]: rank for rank, ranks in self.ranks.items()}
        while not done(self.heard):
            ready = select.select(list(of_pipe), [], [], self.left_s())[0]
            for pipe in ready:
                data = os.read(pipe, 65_536)
                rank = of_pipe[pipe]
                if not data:
                    del of_pipe[pipe]
                    self.heard[rank].append("ended")
                *lines, self._rest[rank] = (self._rest[rank] + data).split(b"\n")
                self.heard[rank] += [line.decode() for line in lines]

    def left_s(self) -> float:
        """Say how long may still be waited. Raises TimeoutError when that is over."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"after {DEADLINE_S:g} s only this was heard: {self.heard}")
        return left_s

    def tell(self, rank: int, word: str) -> None:
        """Tell a rank something."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.ranks[rank][1], f"{word}\n".encode())


def hang(name: str, folder: Path) -> None:
    """Run one job into its fault and collect what it leaves."""
    import torch

    torch.set_num_threads(1)  # torch is loaded before the ranks are forked, so only once
    fault = FAULTS[name]
    watch = Watch({rank: start_rank(fault, rank, folder) for rank in range(fault.size)})
    try:
        watch.wait(lambda heard: all({"last", "ended", "failed"} & set(lines) for lines in heard.values()))
        if name == "stopped_inside":
            dump(watch, [rank for rank in watch.ranks if rank])
            settle(watch, folder, (1, 2, 3))
            os.kill(watch.ranks[1][0], signal.SIGSTOP)
            watch.tell(0, "go")
        watch.wait(lambda heard: sum("ended" in lines for lines in heard.values()) >= fault.ends)
        settle(watch, folder, fault.open, fault.mute)
        take_stacks(watch, folder)
        collect(watch, folder)
    finally:
        for pid, _, _ in watch.ranks.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def settle(watch: Watch, folder: Path, inside: tuple[int, ...], mute: tuple[int, ...] = ()) -> None:
    """Take dumps until those ranks are inside a collective and everybody else is where it stays.

    The recorder notes some time after the end of a collective that it is over, so once is not enough.
    Raises TimeoutError.
    """
    before: list[int] = []
    steady = 0
    while watch.left_s():
        dump(watch, [rank for rank in watch.ranks if rank not in mute])
        entries = {rank: json.loads((folder / f"rank_{rank}.json").read_text()).get("entries") for rank in inside}
        is_open = all(found and not found[-1]["retired"] for found in entries.values())
        last = [found[-1]["record_id"] for found in entries.values() if found]
        steady = steady + 1 if is_open and last == before else 0
        if steady == STEADY_DUMPS:
            return
        before = last
        time.sleep(0.05)


def dump(watch: Watch, ranks: list[int]) -> None:
    """Let ranks write their dumps, and wait for them."""
    before = {rank: watch.heard[rank].count("dumped") for rank in ranks}
    for rank in ranks:
        watch.tell(rank, "dump")
    watch.wait(
        lambda heard: all(heard[rank].count("dumped") > before[rank] or "ended" in heard[rank] for rank in ranks)
    )


def take_stacks(watch: Watch, folder: Path) -> None:
    """Let every process that runs write its stacks, and wait until the kernel let it. Raises TimeoutError."""
    for pid, _, _ in watch.ranks.values():
        os.kill(pid, signal.SIGUSR1)
    running = [rank for rank, (pid, _, _) in watch.ranks.items() if state_of(pid) not in "TtZ"]
    while watch.left_s():
        if all(has_stacks(folder, rank) or (folder / f"err_rank_{rank}.log").exists() for rank in running):
            return
        time.sleep(0.05)


def has_stacks(folder: Path, rank: int) -> bool:
    """Tell whether a rank has written all its stacks; the main thread's comes last."""
    return (folder / f"stack_rank_{rank}.txt").read_text().endswith("in <module>\n")


def state_of(pid: int) -> str:
    """Give the kernel's letter for a process's state."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def collect(watch: Watch, folder: Path) -> None:
    """Write what the kernel says of every process; one that ended is told by how."""
    states = {}
    for rank, (pid, _, _) in watch.ranks.items():
        ended, status = os.waitpid(pid, 0 if "ended" in watch.heard[rank] else os.WNOHANG)
        if ended:
            states[rank] = {"state": "exited", "exit_code": os.waitstatus_to_exitcode(status)}
        else:
            states[rank] = {"state": "stopped" if state_of(pid) in "Tt" else "running"}
    (folder / "states.json").write_text(json.dumps(states))


def main() -> None:
    """Run the job that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=sorted(FAULTS))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    hang(arguments.fault, arguments.folder)


if __name__ == "__main__":
    main()
