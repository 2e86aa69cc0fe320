"""Processes of ranks: ending them with all that they started, and finding what a killed runner left behind.

A runner is made the parent of whatever its ranks leave behind, so nothing that they start escapes it; every rank also
carries its folder's name in its environment, by which the agent finds it when the runner is gone. Linux only.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

import psutil

MARK = "ARGOSY_FOLDER"
"""The environment variable by which a rank's processes are known."""
OURS = "ARGOSY_"
"""How the names of our own variables begin."""
SHARED = "ARGOSY_CACHE"
"""Where downloads are kept: the one of ours that ranks of `kind: train` see."""
RANK_NAME = "argosy-rank-"
GONE_S = 5.0
TICK_S = 0.02

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """Have the kernel hand this process what its descendants leave behind."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; called between fork and exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def descendants() -> list[psutil.Process]:
    """List all living processes below this one."""
    with contextlib.suppress(psutil.Error):
        return [one for one in psutil.Process().children(recursive=True) if _lives(one)]
    return []


def end_descendants() -> None:
    """Kill all processes below this one, a bounded time long: they may start others meanwhile."""
    _end(descendants)


def marked(folder: str) -> list[psutil.Process]:
    """List all living processes that carry this folder's mark, those of other users left out."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == folder and process.pid != os.getpid() and _lives(process):
                found.append(process)
    return found


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out what an agent is told by its environment, such as a join token: ranks are not to see it.

    Where downloads are kept (ARGOSY_CACHE) stays.
    """
    return {name: text for name, text in environment.items() if not name.startswith(OURS) or name == SHARED}


def left_behind(folder: str, pids: Sequence[int]) -> list[psutil.Process]:
    """List what lives of a folder's ranks.

    folder: the mark of its ranks. pids: of ranks that a fork server made, which carry another's environment.
    """
    return marked(folder) + forked(pids)


def end_left(folder: str, pids: Sequence[int]) -> bool:
    """Kill what `left_behind` lists; tells whether nothing is left."""
    return _end(lambda: left_behind(folder, pids))


def forked(pids: Sequence[int]) -> list[psutil.Process]:
    """List those of these processes that live and are ranks of a fork server, by the name it gives them."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error, ValueError):
            process = psutil.Process(pid)
            if process.name().startswith(RANK_NAME) and _lives(process):
                found.append(process)
    return found


def _end(find: Callable[[], list[psutil.Process]]) -> bool:
    deadline_s = time.monotonic() + GONE_S
    while left := find():
        if time.monotonic() > deadline_s:
            return False
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(TICK_S)
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
