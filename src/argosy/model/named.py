"""Finds the configuration that a person names: one that ships with Argosy, a `config.json`, or a folder that holds one.

It reads that one file and knows nothing of what is in it.
"""

from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from argosy.contracts.errors import BadInputError

CONFIG_BYTES_MAXIMUM = 4_000_000


def named_configs() -> tuple[str, ...]:
    """Names of the configurations that ship, in alphabetical order."""
    folder = files("argosy.model") / "configs"
    return tuple(sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")))


def config_text(name_or_path: str) -> tuple[str, str]:
    """Give the text of a configuration and its source for errors.

    A named configuration wins over a file or folder of the same name; write `./NAME` for that one. Raises
    BadInputError.
    """
    if name_or_path in named_configs():
        entry = files("argosy.model") / "configs" / f"{name_or_path}.json"
        return entry.read_text(encoding="utf-8"), f"{name_or_path}.json"
    path = Path(name_or_path)
    try:
        if name_or_path and path.is_dir():
            path = path / "config.json"
        if not name_or_path or not path.is_file():
            raise BadInputError(_unknown(name_or_path, path))
        return _read(path), str(path)
    except (OSError, ValueError) as error:
        if isinstance(error, BadInputError):
            raise
        raise BadInputError(
            f"{name_or_path[:200]!r}: can't be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        data = stream.read(CONFIG_BYTES_MAXIMUM + 1)
    if len(data) > CONFIG_BYTES_MAXIMUM:
        raise BadInputError(
            f"{path}: more than {CONFIG_BYTES_MAXIMUM:,} bytes; expected the config.json of a model, not its weights"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: byte {error.start} is not UTF-8; expected the config.json of a model") from error


def _unknown(name: str, path: Path) -> str:
    names = named_configs()
    if path.name == "config.json" and path.parent.is_dir():
        return f"{path.parent}: holds no config.json; expected a folder with the config.json of a model"
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"nearest: {', '.join(near)}. " if near else ""
    problem = f"model {name!r}: neither a file, a folder nor a named configuration"
    return f"{problem}; {hint}`argosy model list` lists all {len(names)}"
