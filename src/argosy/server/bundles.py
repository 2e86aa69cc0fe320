"""Uploaded code of one service: a tar.gz each, by its SHA-256; kept while a job that has not ended needs it.

What nobody needs goes with the next that comes in, an hour after it was last handed in or named, so a job may come
some time after its code. Must not know HTTP, nor what is in an archive.
"""

import asyncio
import contextlib
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import BUNDLE_BYTES_MAX
from argosy.control.state import State
from argosy.server.loop import Loop
from argosy.server.store import Store

FOLDER_NAME = "bundles"
ALL_BYTES_MAX = 16 * BUNDLE_BYTES_MAX
"""The most that all archives together may take."""
KEPT_S = 3_600.0
"""How long an archive is kept that no job needs, or needs yet."""
PART = ".part-"
"""How the names of archives begin that are not whole."""
NAME = re.compile(r"[0-9a-f]{64}")


class Bundles:
    """All archives of one service. folder: where they lie."""

    def __init__(self, folder: Path, store: Store, loop: Loop) -> None:
        self._folder, self._store, self._loop = folder, store, loop
        self._whole_bytes = self._coming_bytes = 0

    def path(self, name: str) -> Path | None:
        """Place an archive; None where it is not here."""
        path = self._folder / name
        return path if NAME.fullmatch(name) and path.is_file() else None

    def name(self, name: str) -> bool:
        """Say whether an archive is here, and keep it for a while because somebody names it."""
        path = self.path(name)
        if path is not None:
            with contextlib.suppress(OSError):
                path.touch()
        return path is not None

    @contextlib.contextmanager
    def incoming(self) -> Iterator["Incoming"]:
        """Give a place for an archive that comes in; whatever is not kept of it goes.

        Raises BadInputError where all archives together are too large, InfrastructureError where it can't be written.
        """
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._whole_bytes = self._whole()
            descriptor, partial = tempfile.mkstemp(prefix=PART, dir=self._folder)
            with os.fdopen(descriptor, "wb") as file:
                coming = Incoming(file=file, path=Path(partial), count=self._count)
                try:
                    yield coming
                finally:
                    coming.path.unlink(missing_ok=True)
                    self._coming_bytes -= coming.size_bytes
                    self._whole_bytes = self._whole()
        except OSError as error:
            raise InfrastructureError(f"{self._folder}: code can't be kept: {error.strerror or error}") from error

    def keep(self, coming: "Incoming", name: str) -> None:
        """Keep what came in; on disk when it returns. Raises BadInputError for what is no tar.gz, OSError."""
        coming.file.flush()
        os.fsync(coming.file.fileno())
        try:
            with tarfile.open(coming.path, "r:gz") as archive:
                archive.next()
        except (tarfile.TarError, EOFError, ValueError, OSError) as error:
            raise BadInputError(f"the body is no tar.gz: {error}") from error
        coming.path.replace(self._folder / name)
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _count(self, size_bytes: int) -> None:
        """Count bytes that come in, of all uploads under way. Raises BadInputError for those beyond the bound."""
        held = self._whole_bytes + self._coming_bytes
        if held + size_bytes > ALL_BYTES_MAX:
            text = f"the service holds {held:,} bytes of uploaded code; at most {ALL_BYTES_MAX:,} are taken"
            raise BadInputError(f"{text}; what no job needs goes within an hour")
        self._coming_bytes += size_bytes

    def _whole(self) -> int:
        """Measure the archives that are whole."""
        return sum(_size(path) for path in self._folder.iterdir() if not path.name.startswith(PART))

    async def is_for(self, name: str, node: str) -> bool:
        """Say whether a node has a job that needs this archive: nobody else's code is any agent's business."""
        job = await asyncio.wrap_future(self._loop.ask(lambda state: job_on(state, node)))
        rows = self._store.read("SELECT bundle FROM job WHERE id = ?", (job,))
        return bool(rows) and rows[0][0] == name

    def sweep(self) -> None:
        """Remove archives that no job needs, and parts of some that never came whole. Raises InfrastructureError."""
        live = self._loop.ask(lambda state: {job.id for job in state.jobs.values() if job.state != "ended"}).result()
        needed = {
            name for job, name in self._store.read("SELECT id, bundle FROM job WHERE bundle != ''") if job in live
        }
        with contextlib.suppress(OSError):  # there is none yet, or the next sweep does it
            for path in list(self._folder.iterdir()):
                if path.name not in needed and time.time() - path.stat().st_mtime > KEPT_S:
                    path.unlink(missing_ok=True)


@dataclass(slots=True, kw_only=True)
class Incoming:
    """An archive on its way. count: hears of every piece before it is written, and may refuse it."""

    file: BinaryIO
    path: Path
    count: Callable[[int], None]
    size_bytes: int = 0

    def write(self, piece: bytes) -> None:
        """Take a piece. Raises BadInputError where all archives together become too large, OSError."""
        self.count(len(piece))
        self.size_bytes += len(piece)
        self.file.write(piece)


def _size(path: Path) -> int:
    """Give a file's size; nothing of one that went meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def job_on(state: State, node: str) -> str:
    """Find the job that holds a node; empty for none."""
    number = state.nodes.number.get(node)
    attempt = None if number is None else state.attempts.get(state.nodes.holder[number])
    return "" if attempt is None else attempt.job
