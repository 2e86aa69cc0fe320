"""Text files that a person names: regular, bounded, UTF-8, each refusal naming the file and what it should have been.

Must not know what is in them.
"""

from pathlib import Path

from argosy.contracts.documents import decode_text
from argosy.contracts.errors import BadInputError

BYTES_MAX = 4_000_000


def read_text_file(path: Path, what: str, absent: str, bytes_max: int = BYTES_MAX) -> str:
    """Read a file whole. what: such as `job file`; absent: what to do when it isn't there.

    Devices, pipes and folders are refused, and at most bytes_max + 1 bytes are read. Raises BadInputError.
    """
    try:
        path.stat()  # for the error, which is_file keeps to itself
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a device, pipe or socket"
            raise BadInputError(f"{path}: can't read this {what}: it is {kind}; name a regular file")
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
    except FileNotFoundError as error:
        if path.is_symlink():
            text = f"is a link to {path.readlink()}, which isn't there"
            raise BadInputError(f"{path}: {text}; name a {what}") from error
        raise BadInputError(f"{path}: there is no such {what}{absent}") from error
    except BadInputError:
        raise
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: can't read this {what}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > bytes_max:
        raise BadInputError(f"{path}: more than {bytes_max:,} bytes, which is no {what}")
    return decode_text(data, str(path))
