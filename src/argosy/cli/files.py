"""Text files that a person names: read with a clear error, written whole or not at all.

Must not know what is in them.
"""

import os
import tempfile
from pathlib import Path

from argosy.contracts.documents import decode_text
from argosy.contracts.errors import BadInputError, InfrastructureError


def read_text(path: Path, what: str, hint: str) -> str:
    """Read a UTF-8 file; what: what it should be, such as `job file`; hint: what to do when it isn't there.

    Raises BadInputError.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        near = sorted(other.name for other in path.absolute().parent.glob(f"*{path.suffix or '.yaml'}"))[:5]
        others = f"; there are {', '.join(near)}" if near else ""
        raise BadInputError(f"{path}: there is no such {what}{others}; {hint}") from error
    except OSError as error:
        raise BadInputError(f"{path}: can't read this {what}: {error.strerror or error}") from error
    return decode_text(data, str(path))


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
