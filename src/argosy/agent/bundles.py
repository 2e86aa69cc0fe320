"""Code that was uploaded with a job: fetched from the server once a node, checked by its hash, unpacked for an attempt.

What is unpacked stays within its folder: no absolute path, no `..`, no device (tarfile's filter `data`).
"""

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from argosy.agent.http import Courier
from argosy.agent.keys import read_key
from argosy.contracts.errors import InfrastructureError, UserCodeError
from argosy.contracts.talk import BUNDLE_BYTES_MAX, BUNDLE_PATH

FETCH_S = 600.0
UNPACKED_BYTES_MAX = 16 << 30
KEPT = 8
"""How many bundles a node keeps for attempts to come."""


def unpack(server: str, state: Path, digest: str, target: Path) -> None:
    """Fetch a bundle unless the node has it, and unpack it into a new folder.

    Raises InfrastructureError where it can't be fetched or written, UserCodeError where it is no tar.gz or too large.
    """
    archive = _fetch(server, state, digest)
    shutil.rmtree(target, ignore_errors=True)
    try:
        target.mkdir(mode=0o700)
        with tarfile.open(archive, "r:gz") as file:
            file.extractall(target, filter=_bounded())
    except tarfile.TarError as error:
        raise UserCodeError(f"upload: the bundle can't be unpacked: {error}") from error
    except OSError as error:
        raise InfrastructureError(f"upload: can't be unpacked in {target}: {error.strerror or error}") from error


def _bounded() -> Callable[[tarfile.TarInfo, str], tarfile.TarInfo]:
    """Make a filter that lets so many bytes through: a small archive may unpack to any size."""
    left = UNPACKED_BYTES_MAX

    def kept(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo:
        nonlocal left
        left -= member.size
        if left < 0:
            text = f"upload: the archive unpacks to more than {UNPACKED_BYTES_MAX:,} bytes"
            raise UserCodeError(f"{text}; put large files where nodes see them")
        return tarfile.data_filter(member, target)

    return kept


def _fetch(server: str, state: Path, digest: str) -> Path:
    folder = state / "bundles"
    path = folder / f"{digest}.tar.gz"
    if path.is_file():
        path.touch()
        return path
    courier = Courier(server, read_key(state))
    try:
        data = courier.get(BUNDLE_PATH + digest, BUNDLE_BYTES_MAX, FETCH_S)
    finally:
        courier.close()
    if hashlib.sha256(data).hexdigest() != digest:
        raise InfrastructureError(f"upload: what {server} sent as bundle {digest[:12]} is something else")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(".partial")
        partial.write_bytes(data)
        partial.replace(path)
        for old in sorted(folder.glob("*.tar.gz"), key=lambda one: one.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise InfrastructureError(f"upload: can't be kept in {folder}: {error.strerror}") from error
    return path
