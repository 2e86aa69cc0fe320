"""Forked processes for tests that need more than one rank: a bare world, or ranks of a launch that may fail.

The test's own process never joins a world, so that it stays fit to fork.
"""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from argosy.comm.groups import join_world

torch.set_num_threads(1)

PEER_TIMEOUT = timedelta(seconds=30)
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a forked rank ended.

    said: what it reported on its way. value: what it returned. error: the exception that left it. code: of the process,
    negative for a signal.
    """

    rank: int
    code: int | None
    said: tuple[Any, ...] = ()
    value: Any = None
    error: BaseException | None = None
    error_text: str = ""
    traceback: str = ""


@contextmanager
def hosted_store():
    """Host a store in a process of its own; gives its port."""
    here, there = _FORK.Pipe()
    process = _FORK.Process(target=_host, args=(there,), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv()
    finally:
        here.send("done")
        process.join(10)


def fork_ranks(size: int, body: Callable[[int, Callable[[Any], None]], Any], *, timeout_s: float = 60) -> list[Ended]:
    """Run `body(rank, say)` in `size` forked processes; gives how each ended. Kills them all after `timeout_s`."""
    running = []
    for rank in range(size):
        here, there = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_run, args=(body, rank, there), daemon=True)
        process.start()
        there.close()
        running.append((rank, process, here))
    deadline_s = time.monotonic() + timeout_s
    return [_ended(rank, process, pipe, deadline_s) for rank, process, pipe in running]


def in_world(size: int, body: Callable[[int], Any]) -> list[Any]:
    """Run `body(rank)` in a gloo world of `size` ranks; gives what each returned, and raises if any failed."""
    with hosted_store() as port:
        ended = fork_ranks(size, lambda rank, _: joined(body, rank, size, port))
    for each in ended:
        if each.code:
            raise RuntimeError(f"rank {each.rank} left with {each.code}: {each.error_text}\n{each.traceback}")
    return [each.value for each in ended]


def joined(body: Callable[[int], Any], rank: int, size: int, port: int) -> Any:
    """Run `body(rank)` as one rank of a gloo world whose store listens at `port`."""
    join_world(
        host="127.0.0.1", port=port, prefix="t", rank=rank, world_size=size, backend="gloo", timeout=PEER_TIMEOUT
    )
    value = body(rank)
    dist.barrier()
    dist.destroy_process_group()
    return value


def _host(pipe: Connection) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    pipe.poll(None)


def _run(body: Callable[[int, Callable[[Any], None]], Any], rank: int, pipe: Connection) -> None:
    torch.set_num_threads(1)
    code = 0
    try:
        pipe.send(("value", body(rank, lambda item: pipe.send(("said", item)))))
    except BaseException as error:
        code = getattr(error, "exit_code", 1)
        pipe.send(("error", (_portable(error), str(error), traceback.format_exc())))
    pipe.close()
    os._exit(code)


def _portable(error: BaseException) -> BaseException | None:
    """Keep an exception that pickles by its arguments."""
    return error if type(error).__module__.startswith(("argosy", "builtins")) else None


def _ended(rank: int, process: Any, pipe: Connection, deadline_s: float) -> Ended:
    said, value, error = [], None, (None, "", "")
    while True:
        if not pipe.poll(max(0.0, deadline_s - time.monotonic())):
            process.kill()
            process.join(10)
            raise RuntimeError(f"rank {rank} said nothing for too long")
        try:
            kind, item = pipe.recv()
        except EOFError:
            break
        if kind == "said":
            said.append(item)
        elif kind == "value":
            value = item
        else:
            error = item
    process.join(30)
    return Ended(
        rank=rank,
        code=process.exitcode,
        said=tuple(said),
        value=value,
        error=error[0],
        error_text=error[1],
        traceback=error[2],
    )


def spawn_rank(body: Callable[[Any], Any], launch: Any, *, timeout_s: float = 240) -> Any:
    """Run `body(launch)` as the only rank of a world in a fresh process, fit for a GPU; gives what it returned."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_spawned, args=(body, launch, there), daemon=True)
    process.start()
    there.close()
    ended = _ended(0, process, here, time.monotonic() + timeout_s)
    if ended.code:
        raise RuntimeError(f"the rank left with {ended.code}: {ended.error_text}\n{ended.traceback}")
    return ended.value


def _spawned(body: Callable[[Any], Any], launch: Any, pipe: Connection) -> None:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    _run(lambda _rank, _say: body(replace(launch, store_port=store.port)), 0, pipe)
