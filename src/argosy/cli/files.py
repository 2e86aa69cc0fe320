"""Text files that a person names: read with a clear error, written whole or not at all.

Must not know what is in them.
"""

import os
import tempfile
from pathlib import Path

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.fleet.text_file import BYTES_MAX, read_text_file


def read_text(path: Path, what: str, hint: str, bytes_max: int = BYTES_MAX) -> str:
    """Read a UTF-8 file; what: what it should be, such as `job file`; hint: what to do when it isn't there.

    Raises BadInputError.
    """
    near = []
    if not os.path.lexists(path):
        near = sorted(other.name for other in path.absolute().parent.glob(f"*{path.suffix or '.yaml'}"))[:5]
    others = f"; there are {', '.join(near)}" if near else ""
    return read_text_file(path, what, f"{others}; {hint}", bytes_max)


def check_folder(path: Path, what: str) -> None:
    """See that a folder is there or could be made. what: the option or key that names it. Raises BadInputError."""
    try:
        there = next((one for one in (path, *path.absolute().parents) if os.path.lexists(one)), None)
        if there is not None and not there.is_dir():
            raise BadInputError(f"{what}: {there} is no folder; name a folder, or a new one")
    except OSError as error:
        raise BadInputError(f"{what}: {path}: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that it is whole or absent.

    Raises InfrastructureError naming the path.
    """
    partial = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes files for their owner alone; these are as open as any other file of his.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, 0o666 & ~umask)
        os.replace(partial, path)
    except OSError as error:
        if partial is not None:
            Path(partial).unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: can't be written: {error.strerror or error}") from error
