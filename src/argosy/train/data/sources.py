"""Which files a data specification means: paths, globs and the built-in source `stdlib:`.

Looks at names and sizes only; what the files hold is the business of `documents`.
"""

import difflib
import glob
import os
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from argosy.contracts.errors import BadInputError

STDLIB = "stdlib:"
_NOT_TEXT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
_SHOWN = 3


def find_files(patterns: Sequence[str]) -> tuple[Path, ...]:
    """Resolve paths and globs to files: patterns in the order given, each one's matches sorted, no file twice.

    `**` crosses folders, `~` is the home folder, and `stdlib:` means the interpreter's own standard-library sources.
    Raises BadInputError for a pattern that matches nothing.
    """
    if not patterns:
        raise BadInputError('data.files: empty; give a path or glob, for example "corpus/*.txt"')
    found: dict[Path, None] = {}
    for pattern in patterns:
        found.update(dict.fromkeys(_matches(pattern)))
    return tuple(found)


def _matches(pattern: str) -> Iterable[Path]:
    if pattern.startswith("stdlib"):
        return _stdlib(pattern)
    path = Path(pattern).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        raise BadInputError(f'data.files: "{pattern}" is a folder; name its files, for example "{path}/**/*.txt"')
    files = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
    if not files:
        raise BadInputError(f'data.files: no file matches "{pattern}"; {_what_is_there(path)}')
    return files


def _stdlib(pattern: str) -> list[Path]:
    if pattern != STDLIB:
        raise BadInputError(f'data.files: no built-in source "{pattern}"; the only one is "{STDLIB}"')
    root = Path(sysconfig.get_paths()["stdlib"])
    files: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _NOT_TEXT]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    if not files:
        raise BadInputError(f'data.files: "{STDLIB}" found no .py file under {root}; name text files of your own')
    return sorted(files)


def _what_is_there(path: Path) -> str:
    """Say which folder was searched and which names in it come nearest."""
    folder = path.parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return f"there is no folder {folder.absolute()}{nearest_file(folder)}"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    near = nearest_file(path) if path.parent == folder else ""
    some = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"the folder {folder.absolute()} holds " + (
        f"{len(names)} files{near or f': {some}'}" if names else "no file"
    )


def nearest_file(path: Path) -> str:
    """Name the entries of `path`'s folder that are spelt most like it: `; nearest: a, b`, or nothing."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=_SHOWN, cutoff=0.5)
    return f"; nearest: {', '.join(near)}" if near else ""
