"""Text files that a person names: read with a clear error, written whole or not at all.

Must not know what is in them.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.fleet.text_file import BYTES_MAX, read_text_file

# Standard output by its other names; `cli.main` gives descriptor 1 to what libraries print.
STDOUTS = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
# Room for the rest of a temporary file's name, which has as many bytes as any other at most.
NAME_MAX = 50


def read_text(path: Path, what: str, hint: str, bytes_max: int = BYTES_MAX) -> str:
    """Read a UTF-8 file; what: what it should be, such as `job file`; hint: what to do when it isn't there.

    Raises BadInputError.
    """
    near = []
    if not os.path.lexists(path):
        near = sorted(other.name for other in path.absolute().parent.glob(f"*{path.suffix or '.yaml'}"))[:5]
    others = f"; there are {', '.join(near)}" if near else ""
    return read_text_file(path, what, f"{others}; {hint}", bytes_max)


def check_folder(path: Path, what: str, wanted: str = "a folder, or a new one") -> None:
    """See that a folder is there or could be made.

    what: the option or key that names it; wanted: what to name instead. Raises BadInputError.
    """
    try:
        there = next((one for one in (path, *path.absolute().parents) if os.path.lexists(one)), None)
        if there is not None and not there.is_dir():
            raise BadInputError(f"{what}: {there} is no folder; name {wanted}")
    except OSError as error:
        raise BadInputError(f"{what}: {path}: {error.strerror or error}") from error


def check_file(path: Path, what: str) -> None:
    """See that a file could be written, before time is spent on its content.

    what: the option that names it. Raises BadInputError.
    """
    if path.is_dir():
        raise BadInputError(f"{what}: {path} is a folder; name a file, such as {path / 'NAME'}")
    check_folder(path.parent, what, "a file in one, or in a new one")


def check_ending(path: Path, what: str, endings: Sequence[str]) -> None:
    """Refuse a file's name that is of no known kind. what: the option that names it. Raises BadInputError."""
    if path.suffix.lower() not in endings:
        raise BadInputError(f"{what} {path}: write a name that ends in {' or '.join(endings)}")


def check_apart(read: Iterable[Path | None], written: Iterable[tuple[str, Path | None]]) -> None:
    """See that no file is written over one that is read, or twice. Raises BadInputError.

    written: each with the option that names it. Devices and pipes take anything.
    """
    taken = {os.path.realpath(path): "is read" for path in read if path is not None}
    for option, path in written:
        if path is None or (path.exists() and not path.is_file()):
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise BadInputError(f"{option}: {path} {taken[place]}; name another file")
        taken[place] = f"is written by {option} already"


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that it is whole or absent.

    A link stays: the file that it leads to is replaced. A device or a pipe stays too, and is written to. Raises
    InfrastructureError naming the path.
    """
    try:
        if str(path) in STDOUTS:
            sys.stdout.write(text)
        elif path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            _write_whole(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise InfrastructureError(f"{path}: can't be written: {error.strerror or error}") from error


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name[:NAME_MAX]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes files for their owner alone; these are as open as any other file of his.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, 0o666 & ~umask)
        os.replace(partial, path)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise
