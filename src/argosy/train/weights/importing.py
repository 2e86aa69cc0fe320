"""Read a model's weights from a folder of safetensors, one tensor at a time.

Names and shapes are checked when the folder is opened, before any tensor is read. Nothing here unpickles.
"""

import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from argosy.contracts.errors import BadInputError
from argosy.model.shape import ModelShape, check_trainable
from argosy.train.weights.names import HF_HEAD, parameter_shapes, to_hf

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_READABLE = ("F64", "F32", "BF16", "F16")
_SHOWN = 10


class Reader:
    """An opened folder of weights. Tensors are read when asked for, so memory holds one at a time."""

    def __init__(self, places: dict[str, Any], opened: ExitStack) -> None:
        self._places, self._opened = places, opened

    @property
    def names(self) -> tuple[str, ...]:
        """Our names of all parameters there are."""
        return tuple(self._places)

    def tensor(self, name: str) -> torch.Tensor:
        """Read one parameter, whole and in float32, by our name of it."""
        whole: torch.Tensor = self._places[name].get_tensor(to_hf(name))
        return whole.to(torch.float32)

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_hf(folder: Path, shape: ModelShape) -> Reader:
    """Open `model.safetensors`, or its shards by their index, and check that they hold exactly this model.

    Raises BadInputError naming the tensors that are missing, unknown, of another shape or of an unreadable dtype.
    """
    check_trainable(shape, str(folder))
    with ExitStack() as stack:
        files = {path: stack.enter_context(_open(path)) for path in _files(folder)}
        there = {name: file for file in files.values() for name in file.keys()}  # noqa: SIM118 -- not a mapping
        wanted = {to_hf(name): (name, size) for name, size in parameter_shapes(shape).items()}
        problems = [*_names_wrong(there, wanted, shape), *_tensors_wrong(there, wanted)]
        if problems:
            raise BadInputError(f"{folder}: not the weights of {shape.name}:\n" + "\n".join(problems))
        return Reader({ours: there[hf] for hf, (ours, _) in wanted.items()}, stack.pop_all())


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; give one that holds {SINGLE_FILE} or {INDEX_FILE}")
    if (folder / INDEX_FILE).is_file():
        return _shards(folder / INDEX_FILE)
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    why = f"; {pickled[0]} is pickled and not read: save it with safetensors first" if pickled else ""
    raise BadInputError(f"{folder}: holds neither {SINGLE_FILE} nor {INDEX_FILE}{why}")


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        outside = [name for name in names if Path(name).name != name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(f'{index}: not an index of shards: a "weight_map" of tensor to file is expected') from error
    lost = [name for name in names if not (index.parent / name).is_file()]
    if outside or lost:
        what = "names files outside its folder" if outside else "names files that are not there"
        raise BadInputError(f"{index}: {what}: {_some(outside or lost)}")
    return [index.parent / name for name in names]


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise BadInputError(f"{path}: not a whole safetensors file: {error}; copy or download it again") from error


def _names_wrong(there: dict[str, Any], wanted: dict[str, Any], shape: ModelShape) -> list[str]:
    missing = [name for name in wanted if name not in there]
    ignored = {HF_HEAD} if shape.tied_embeddings else set()
    extra = [name for name in there if name not in wanted | dict.fromkeys(ignored) and not _is_table(name)]
    hint = "; is tie_word_embeddings: true missing in config.json?" if missing == [HF_HEAD] else ""
    return [
        f"  {count} {what}: {_some(names)}{more}"
        for count, what, names, more in ((len(missing), "missing", missing, hint), (len(extra), "unknown", extra, ""))
        if names
    ]


def _is_table(name: str) -> bool:
    """Old files carry the table of rotary frequencies, which follows from config.json."""
    return name.endswith(".rotary_emb.inv_freq")


def _tensors_wrong(there: dict[str, Any], wanted: dict[str, tuple[str, tuple[int, ...]]]) -> list[str]:
    shapes, dtypes = [], []
    for name, (_, size) in wanted.items():
        if name not in there:
            continue
        view = there[name].get_slice(name)
        if tuple(view.get_shape()) != size:
            shapes.append(f"{name} {list(view.get_shape())}, expected {list(size)}")
        if view.get_dtype() not in _READABLE:
            dtypes.append(f"{name} {view.get_dtype()}")
    lines = [f"  {len(shapes)} of another shape: {_some(shapes)}"] if shapes else []
    allowed = ", ".join(_READABLE)
    return lines + ([f"  {len(dtypes)} not readable (allowed: {allowed}): {_some(dtypes)}"] if dtypes else [])


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
