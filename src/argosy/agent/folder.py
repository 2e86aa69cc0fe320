"""The folder of one generation of an attempt on one node: all that its runner and the agent tell each other.

Whichever of the two dies, the other, or its next process, finds here how things stand: the task, what is held, a wish
to stop, logs and reports. A lock that lives as long as the runner tells whether there is one. Knows files only.
"""

import contextlib
import errno
import fcntl
import math
import os
import re
import signal
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import Held, StartRun, StartTrain

ATTEMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
BOARDS = Path("/dev/shm")
LEASE_BYTES = 24
ROOM_BYTES = 16_384
SECOND_US = 1_000_000

LOCK_NAME = "lock"
"""The file in the folder of an agent, a runner or a fork server that its process holds locked."""
LEAVE_SIGNAL = signal.SIGUSR1
"""Asks the agent that holds a lock to end once nothing runs on its node; SIGTERM ends it at once."""
_LOCK = "hhqqi0q"  # struct flock of Linux on 64-bit machines


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner is to do. node, address: this one's. state: the agent's folder. fork_folder: of the fork server.

    server: URL where bundles are fetched.
    """

    order: StartTrain | StartRun
    node: str
    address: str
    state: str
    fork_folder: str = ""
    server: str = ""


class StopWish(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a runner's ranks. grace_s: from SIGTERM to SIGKILL."""

    reason: str
    grace_s: float


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner says of itself. output_us, mark_us: Held.quiet_s and unmarked_s as times; 0 where nobody asks."""

    held: Held
    output_us: int = 0
    mark_us: int = 0


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """One generation of an attempt on this node."""

    path: Path

    @property
    def logs(self) -> Path:
        """Where ranks' logs and the runner's own lie."""
        return self.path / "logs"

    @property
    def reports(self) -> Path:
        """What ranks reported, one JSON object a line."""
        return self.path / "reports.jsonl"

    @property
    def work(self) -> Path:
        """The ranks' working folder, where the job names none."""
        return self.path / "work"

    def log(self, rank: int) -> Path:
        """Place a rank's log."""
        return self.logs / f"rank-{rank}.log"

    def marks(self, rank: int) -> Path:
        """Place the record of when a rank's log grew: lines of an offset in bytes and Unix time in us."""
        return self.logs / f"rank-{rank}.marks"

    def begin(self, task: Task) -> None:
        """Make the folder and put the task there. Raises InfrastructureError naming what can't be written."""
        try:
            self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.path / "task", msgspec.msgpack.encode(task))
        except OSError as error:
            raise InfrastructureError(f"can't write {self.path}: {error.strerror}") from error

    def task(self) -> Task:
        """Read what is to be done. Raises InfrastructureError where it is not whole."""
        try:
            return msgspec.msgpack.decode((self.path / "task").read_bytes(), type=Task)
        except (OSError, msgspec.MsgspecError) as error:
            raise InfrastructureError(f"no task to be read in {self.path}: {error}") from error

    def publish(self, standing: Standing) -> None:
        """Write how things stand. Raises OSError."""
        write_whole(self.path / "held", msgspec.msgpack.encode(standing))

    def held(self) -> Held | None:
        """Read how things stand now; None before a runner said anything."""
        try:
            standing = msgspec.msgpack.decode((self.path / "held").read_bytes(), type=Standing)
        except (OSError, msgspec.MsgspecError):
            return None
        now_us = time.time_ns() // 1000
        output_us, mark_us = standing.output_us, standing.mark_us
        return msgspec.structs.replace(
            standing.held,
            quiet_s=max(0, now_us - output_us) // SECOND_US if output_us else 0.0,
            unmarked_s=max(0, now_us - mark_us) // SECOND_US if mark_us else None,
        )

    def wish_stop(self, wish: StopWish) -> None:
        """Ask the runner to end. Raises OSError."""
        write_whole(self.path / "stop", msgspec.msgpack.encode(wish))

    def stop_wish(self) -> StopWish | None:
        """Read whether the runner is to end."""
        try:
            return msgspec.msgpack.decode((self.path / "stop").read_bytes(), type=StopWish)
        except (OSError, msgspec.MsgspecError):
            return None

    def takes_writes(self) -> bool:
        """Tell whether its disk takes a file now, which a full one, or a quota that is used up, does not."""
        path = self.path / ".room"
        try:
            path.write_bytes(bytes(ROOM_BYTES))
        except OSError as error:
            return error.errno not in (errno.ENOSPC, errno.EDQUOT)
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
        return True

    def runner_pid(self) -> int:
        """Give the process that holds the lock; 0 where none does."""
        return lock_holder(self.path / LOCK_NAME)


class Lease:
    """Until when ranks of a node may run without word from the server, on this machine's monotonic clock.

    Agent and runners share it as a file of fixed length, which is read and written at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def extend(self, deadline_s: float) -> None:
        """Let it end at this time. Raises OSError."""
        text = f"{deadline_s:.3f}".rjust(LEASE_BYTES - 1) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, text.encode(), 0)
        finally:
            os.close(descriptor)

    def begin(self, boot: str) -> None:
        """Void what was granted in another boot, whose clock counted from another moment. boot: its name."""
        known = self._path.with_name("boot")
        with contextlib.suppress(OSError):
            if known.exists() and known.read_text(encoding="utf-8") != boot:
                self._path.unlink(missing_ok=True)
                known.unlink()
        with contextlib.suppress(OSError):
            write_whole(known, boot.encode())

    def deadline_s(self) -> float:
        """Read when it ends; what can't be read has ended."""
        try:
            deadline_s = float(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0.0
        return deadline_s if math.isfinite(deadline_s) else 0.0


def board_path(port: int) -> Path:
    """Place the emulated clock's board of the generation whose ranks meet at this port of this host.

    No other generation meets there while this one lives.
    """
    return BOARDS / f"argosy-board-{os.getuid()}-{port}"


def make_folder(state: Path) -> None:
    """Make an agent's folder, which its user alone may enter. Raises InfrastructureError."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        text = f"can't make the agent's folder {state}: {error.strerror}"
        raise InfrastructureError(f"{text}; --state names another") from error


def service_path(state: Path, service: str) -> Path:
    """Place what is of one service in an agent's folder. Raises BadInputError for what is no service's id."""
    if not ATTEMPT_NAME.fullmatch(service):
        raise BadInputError(f"service {service!r}: not an id that a server gives")
    return state / "services" / service


def attempt_path(home: Path, attempt: str, generation: int) -> Path:
    """Place a generation's folder in its service's. Raises BadInputError for a name that can't be a folder's."""
    if not ATTEMPT_NAME.fullmatch(attempt) or generation < 0:
        raise BadInputError(f"attempt {attempt!r}, generation {generation}: not a name that a server gives")
    return home / "attempts" / attempt / str(generation)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is seen whole or not at all, by this user alone. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def take_lock(path: Path) -> int | None:
    """Lock a file until this process ends; gives its descriptor, None where another process has it. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_at(path: Path, descriptor: int) -> bool:
    """Tell whether an open file still lies at its path; not where it, or its folder, was removed or moved away."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return os.path.samestat(found, os.fstat(descriptor))


def lock_holder(path: Path) -> int:
    """Give the process that has a lock; 0 where none does. The asking process must not hold it itself."""
    try:
        with path.open("rb") as file:
            asked = struct.pack(_LOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(_LOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else int(pid)
