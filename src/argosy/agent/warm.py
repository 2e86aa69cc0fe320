"""The fork server that a host keeps warm for ranks to come: started once, found again, shared by its agents.

It lives as long as an agent of this folder does, and beyond while ranks run that it forked. Starting it takes seconds,
in the background; ranks may connect before it has loaded. Imports no torch.
"""

import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from argosy.agent.folder import LOCK_NAME, take_lock
from argosy.agent.processes import without_ours
from argosy.agent.wire import check_unix_path
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.launching import ServerFailed, read_reply

TICK_S = 0.05
FORK_SERVER_MODULE = "argosy.train.forkserver"


def can_train() -> bool:
    """Tell whether torch is installed here."""
    try:
        version("torch")
    except PackageNotFoundError:
        return False
    return True


def fork_socket(folder: Path) -> Path:
    """Name the socket of the fork server in a folder."""
    return folder / "fork"


def default_folder() -> Path:
    """Name a folder whose path is short enough for a socket's, in memory where there is such.

    One for each user and installation: a fork server has the code that it was started with.
    """
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    installed = zlib.crc32(f"{sys.prefix} {version('argosy')}".encode())
    return base / f"argosy-fork-{os.getuid()}-{installed:08x}"


def await_socket(folder: Path, timeout_s: float) -> Path:
    """Wait until the fork server can be connected to, loaded or not; gives its socket.

    Raises InfrastructureError with what it says where it can't work, or when time is up.
    """
    path = fork_socket(folder)
    deadline_s = time.monotonic() + timeout_s
    while not (path.exists() and _has_reader(folder)):
        if failure := _failure(folder):
            raise InfrastructureError(failure)
        if time.monotonic() > deadline_s:
            raise InfrastructureError(f"no fork server in {folder} after {timeout_s:g} s; see {folder}/log")
        time.sleep(TICK_S)
    return path


def _has_reader(folder: Path) -> bool:
    """Tell whether a fork server reads at its end of the pipe that says who needs it."""
    hold = _open_life(folder)
    if hold is not None:
        os.close(hold)
    return hold is not None


def _open_life(folder: Path) -> int | None:
    try:
        return os.open(folder / "life", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _failure(folder: Path) -> str:
    """Read whether the fork server said that it can't work."""
    try:
        lines = (folder / "said").read_bytes().splitlines()
    except OSError:
        return ""
    return next((reply.text for line in lines if isinstance(reply := read_reply(line), ServerFailed)), "")


class WarmServer:
    """A process's hold on the fork server of a folder. environment: what it is started with besides this process's."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._environment = dict(environment or {})
        self._hold: int | None = None

    def ensure(self) -> None:
        """Find it, or start it. Raises InfrastructureError when it can't be started."""
        if self._hold is not None and _has_reader(self.folder):
            return
        self.release()
        check_unix_path(str(fork_socket(self.folder)))
        try:
            self._make_folder()
            lock = take_lock(self.folder / LOCK_NAME)
            if lock is None:
                return  # another agent starts it at this moment; the next call finds it
            try:
                self._hold = _open_life(self.folder)
                if self._hold is None:
                    self._start()
                    self._hold = _open_life(self.folder)
            finally:
                os.close(lock)
        except OSError as error:
            raise InfrastructureError(f"no fork server in {self.folder}: {error.strerror or error}") from error

    def release(self) -> None:
        """Let go of it: with its last holder gone and no rank left it ends."""
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        stat = self.folder.stat()
        if stat.st_uid != os.getuid() or stat.st_mode & 0o077:
            raise InfrastructureError(f"{self.folder} must be this user's alone (mode 700); remove it")

    def _start(self) -> None:
        life = self.folder / "life"
        for name in ("life", "fork"):
            (self.folder / name).unlink(missing_ok=True)
        os.mkfifo(life, 0o600)
        reader = os.open(life, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # numpy starts threads when loaded; forking wants none
        environment = {"OPENBLAS_NUM_THREADS": "1", **self._environment, **without_ours(os.environ)}
        command = [sys.executable, "-P", "-m", FORK_SERVER_MODULE, str(fork_socket(self.folder)), "--linger"]
        try:
            with (self.folder / "said").open("wb") as said, (self.folder / "log").open("ab") as log:
                subprocess.Popen(
                    command, stdin=reader, stdout=said, stderr=log, env=environment, start_new_session=True
                )
        finally:
            os.close(reader)
