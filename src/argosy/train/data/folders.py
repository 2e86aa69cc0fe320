"""Folders that appear whole or not at all: written beside their place, flushed, then renamed.

Knows nothing of what is in them. Token sets and exported weights both go through here.
"""

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from argosy.contracts.errors import InfrastructureError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_STALE_S = 24 * 3600.0


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says of a failed write into an InfrastructureError that names `path`."""
    try:
        yield
    except OSError as error:
        raise InfrastructureError(write_error_text(path, error.errno, error.strerror or str(error))) from error


def write_error_text(path: Path, code: int | None, reason: str) -> str:
    """Say what kept `path` from being written and what to do about it."""
    if code not in _FULL:
        return f"{path}: cannot write: {reason}. Choose a folder you may write to."
    return f"{path}: no room while writing: {reason}{_free(path)}. Free some space or choose another folder."


def _free(path: Path) -> str:
    for folder in (path, *path.parents):
        if folder.is_dir():
            return f"; {shutil.disk_usage(folder).free / 1e9:,.2f} GB are free there"
    return ""


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Give a new hidden folder beside `target`; what is still in it when the block ends, well or badly, is removed."""
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        folder = target.parent / f".{target.name}.{secrets.token_hex(6)}.partial"
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(target: Path) -> None:
    """Remove what killed processes left behind; a day without a write is taken as dead."""
    for folder in target.parent.glob(f".{target.name}.*.partial"):
        try:
            newest_s = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
        except OSError:
            continue
        if time.time() - newest_s > _STALE_S:
            shutil.rmtree(folder, ignore_errors=True)


def put(folder: Path, target: Path) -> bool:
    """Flush `folder` to the disk and rename it to `target`; False, with nothing changed, when something is there."""
    with writing(target):
        _flush(folder)
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        _flush_one(target.parent)
    return True


def put_over(folder: Path, target: Path) -> None:
    """Like `put`, but what is at `target` is moved aside first and removed once `folder` has its name."""
    if put(folder, target):
        return
    with beside(target) as old, writing(target):
        target.rename(old / target.name)
        try:
            folder.rename(target)
        except OSError:
            (old / target.name).rename(target)
            raise
        _flush_one(target.parent)


def _flush(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _flush_one(path)
    _flush_one(folder)


def _flush_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
