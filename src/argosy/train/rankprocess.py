"""What a forked process does to become a rank: cut its ties to the server, run the entry, say why it failed, leave.

Knows nothing of training; the entry does. Nothing here returns into the server's code: a rank always leaves by
`os._exit`.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import msgspec

from argosy.contracts.blame import blame_of, exit_code_of
from argosy.contracts.errors import ArgosyError
from argosy.contracts.launching import write_line
from argosy.contracts.messages import Failed, Launch, Upward

Entry = Callable[[Launch, int, Callable[[Upward], None]], int]
"""What a rank runs: (launch, rank, report) -> exit code."""

TRACEBACK_CHARACTERS = 32_000

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_NAME = 15
_LIBC = ctypes.CDLL(None)


def die_with_parent(parent: int, name: str) -> None:
    """Have the kernel kill this process when its parent ends; `ps -o comm` shows the first 15 letters of the name."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(0)


def silence(descriptor: int, to: int | None = None) -> None:
    """Put a descriptor on another one, or on /dev/null."""
    target = os.open(os.devnull, os.O_RDWR) if to is None else to
    os.dup2(target, descriptor)
    if to is None:
        os.close(target)


class SignalPipe:
    """Turns signals into bytes on a pipe, so that a `select` loop sees them."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in self._numbers:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._read

    def read(self) -> set[int]:
        """Return the signals that came since the last call."""
        try:
            return set(os.read(self._read, 4096))
        except BlockingIOError:
            return set()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the signals back across a fork, so that a child never writes into its parent's pipe."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def close(self) -> None:
        """Give the signals their default meaning again and let held ones through."""
        signal.set_wakeup_fd(-1)
        for number in self._numbers:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)


class Reporter:
    """Writes a rank's reports to its pipe; blocks while the agent is behind by more than the pipe holds (64 KiB)."""

    def __init__(self, descriptor: int, rank: int, generation: int) -> None:
        self._descriptor = descriptor
        self._rank = rank
        self._generation = generation
        self._lock = threading.Lock()

    def __call__(self, message: Upward) -> None:
        """Send one message, stamped with rank and generation. Safe from any thread."""
        stamped = msgspec.structs.replace(message, rank=self._rank, generation=self._generation)
        data = memoryview(write_line(stamped))
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


def become_rank(entry: Entry, launch: Launch, rank: int, report: int, log: int, threads: int) -> NoReturn:
    """Run the entry as this process's whole life and leave with its exit code.

    report, log: descriptors of the pipe and the log file. threads: of torch; 0 leaves torch's own choice.
    """
    code = 70
    try:
        silence(0)
        silence(1, to=log)
        silence(2, to=log)
        os.close(log)
        faulthandler.enable()
        limit_threads(threads)
        code = run_entry(entry, launch, rank, Reporter(report, rank, launch.generation))
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def limit_threads(threads: int) -> None:
    """Bound the threads of torch where several ranks share a machine; 0 changes nothing."""
    if threads < 1:
        return
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


def run_entry(entry: Entry, launch: Launch, rank: int, report: Callable[[Upward], None]) -> int:
    """Call the entry; turn an escaped exception into a Failed report and an exit code."""
    try:
        return int(entry(launch, rank, report) or 0)
    except SystemExit as error:
        if isinstance(error.code, int | None):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    except BaseException as error:
        text = traceback.format_exc()
        sys.stderr.write(text)
        with contextlib.suppress(OSError):
            report(last_words(error, text))
        return exit_code_of(error)


def last_words(error: BaseException, trace: str) -> Failed:
    """Make the report of a rank that an exception ends."""
    return Failed(
        blame=blame_of(error),
        text=describe(error),
        traceback=trace[-TRACEBACK_CHARACTERS:],
        exit_code=exit_code_of(error),
    )


def describe(error: BaseException) -> str:
    """Say an exception in one line; our own errors say it all, of others the class helps."""
    return str(error) if isinstance(error, ArgosyError) else f"{type(error).__name__}: {error}"
