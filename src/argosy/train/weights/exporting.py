"""Write a trained model as a folder that Hugging Face's loaders read: safetensors, config.json, tokenizer.

Tensors stream through, so memory holds one shard. The folder appears whole or not at all, and only an empty one or an
earlier export of ours is ever replaced. Knows nothing of where the tensors come from.
"""

import json
import math
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.model.config import read_config
from argosy.model.families import FAMILIES
from argosy.model.shape import ModelShape, check_trainable
from argosy.train.data.folders import beside, put_over, write_error_text, writing
from argosy.train.data.tokenizing import read_tokenizer
from argosy.train.weights.importing import INDEX_FILE, SINGLE_FILE
from argosy.train.weights.names import parameter_shapes, to_hf

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
MARKER_FILE = "argosy_export.json"
SHARD_BYTES = 5 * 10**9
_SPARE_BYTES = 10 * 10**6
_SHOWN = 10
# What a config.json may say of the weights it came with, and these are not.
_OUTDATED = ("dtype", "auto_map", "quantization_config")


def export_hf(
    tensors: Iterable[tuple[str, torch.Tensor]],
    *,
    config_text: str,
    tokenizer: Path | None,
    to: Path,
    dtype: str,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write the whole model to the folder `to`.

    tensors: our name and full tensor of every parameter, any order, each once. config_text: of the model's config.json.
    tokenizer: its tokenizer.json. dtype: fp32, bf16 or fp16. shard_bytes: largest file, unless one tensor is larger.
    Raises BadInputError when `to` holds anything but an earlier export, or the tensors are not those of the model;
    InfrastructureError when the disk is full. Then nothing is left behind and what was at `to` stays.
    """
    if dtype not in DTYPES:
        raise BadInputError(f'export: no dtype "{dtype}"; allowed: {", ".join(DTYPES)}')
    shape = read_config(config_text, "config.json")
    check_trainable(shape, "export")
    to = to.absolute()
    _check_target(to)
    _check_room(to, shape, DTYPES[dtype])
    with beside(to) as folder:
        _write_weights(folder, _converted(tensors, shape, DTYPES[dtype]), shard_bytes, to)
        with writing(to):
            _write_texts(folder, _config(config_text, shape, DTYPES[dtype]), tokenizer)
        put_over(folder, to)


def _check_target(to: Path) -> None:
    if not to.exists():
        return
    if not to.is_dir():
        raise BadInputError(f"export: {to} is a file; name a new or empty folder")
    there = {path.name for path in to.iterdir()}
    try:
        ours = {MARKER_FILE, *json.loads((to / MARKER_FILE).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        ours = set()
    if there - ours:
        raise BadInputError(
            f"export: {to} holds {_some(sorted(there - ours))}, which no earlier export wrote; "
            "name a new or empty folder, or move them away"
        )


def _check_room(to: Path, shape: ModelShape, dtype: torch.dtype) -> None:
    needed_bytes = sum(map(math.prod, parameter_shapes(shape).values())) * dtype.itemsize + _SPARE_BYTES
    free_bytes = shutil.disk_usage(next(path for path in to.parents if path.is_dir())).free
    if free_bytes < needed_bytes:
        raise InfrastructureError(
            f"export: {to} needs {needed_bytes / 1e9:,.2f} GB, {free_bytes / 1e9:,.2f} GB are free there; "
            "free some space or choose another folder"
        )


def _converted(
    tensors: Iterable[tuple[str, torch.Tensor]], shape: ModelShape, dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor]]:
    """Check each tensor against the model and give it its Hugging Face name; complain of those that never came."""
    wanted = parameter_shapes(shape)
    for name, tensor in tensors:
        size = wanted.pop(name, None)
        if size is None:
            raise BadInputError(f'export: "{name}" is no parameter of {shape.name}, or came twice')
        if tuple(tensor.shape) != size:
            raise BadInputError(f"export: {name} has shape {list(tensor.shape)}, {shape.name} needs {list(size)}")
        # A copy: parameters may be views of one flat buffer, which safetensors refuses.
        written = tensor.detach().to(device="cpu", dtype=dtype, copy=True).contiguous()
        if dtype == torch.float16 and not torch.isfinite(written).all() and torch.isfinite(tensor).all():
            raise BadInputError(f"export: {name} holds numbers beyond 65,504, too large for fp16; use bf16 or fp32")
        yield to_hf(name), written
    if wanted:
        raise BadInputError(f"export: {len(wanted)} parameters of {shape.name} did not come: {_some(list(wanted))}")


def _write_weights(folder: Path, tensors: Iterable[tuple[str, torch.Tensor]], shard_bytes: int, to: Path) -> None:
    """Write shards as they fill; how many there are, and so their names, is known only at the end."""
    shards: list[list[str]] = []
    total_bytes = 0
    for shard in _shards(tensors, shard_bytes):
        try:
            save_file(shard, folder / f"{len(shards)}.part", metadata={"format": "pt"})
        except (SafetensorError, OSError) as error:
            raise InfrastructureError(write_error_text(to, _errno(error), str(error))) from error
        # safetensors makes files for their owner alone; these are as open as the folder is.
        (folder / f"{len(shards)}.part").chmod(folder.stat().st_mode & 0o666)
        shards.append(list(shard))
        total_bytes += sum(tensor.nbytes for tensor in shard.values())
    if len(shards) == 1:
        (folder / "0.part").rename(folder / SINGLE_FILE)
        return
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        (folder / f"{number}.part").rename(folder / file)
        weight_map |= dict.fromkeys(names, file)
    with writing(to):
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict(sorted(weight_map.items()))}
        (folder / INDEX_FILE).write_text(_json(index), encoding="utf-8")


def _shards(tensors: Iterable[tuple[str, torch.Tensor]], shard_bytes: int) -> Iterator[dict[str, torch.Tensor]]:
    shard: dict[str, torch.Tensor] = {}
    filled_bytes = 0
    for name, tensor in tensors:
        if shard and filled_bytes + tensor.nbytes > shard_bytes:
            yield shard
            shard, filled_bytes = {}, 0
        shard[name] = tensor
        filled_bytes += tensor.nbytes
    yield shard


def _config(config_text: str, shape: ModelShape, dtype: torch.dtype) -> dict[str, Any]:
    """Keep the user's config.json, with what the weights and their loaders now need."""
    said: dict[str, Any] = json.loads(config_text)
    config = {key: value for key, value in said.items() if key not in _OUTDATED}
    config["architectures"] = [FAMILIES[shape.family][0]]
    config["model_type"] = shape.family
    config["tie_word_embeddings"] = shape.tied_embeddings
    config["torch_dtype"] = str(dtype).removeprefix("torch.")
    return config


def _write_texts(folder: Path, config: dict[str, Any], tokenizer: Path | None) -> None:
    if tokenizer is not None:
        ours = read_tokenizer(tokenizer)
        # Loaders take the family's defaults otherwise, which are other tokens of another tokenizer.
        for key in ("bos_token_id", "eos_token_id"):
            config.setdefault(key, ours.end_of_text)
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": ours.end_name,
            "clean_up_tokenization_spaces": False,
        }
        (folder / "tokenizer.json").write_text(ours.json, encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(_json(settings), encoding="utf-8")
    (folder / "config.json").write_text(_json(config), encoding="utf-8")
    written = sorted(path.name for path in folder.iterdir())
    (folder / MARKER_FILE).write_text(_json({"version": 1, "files": written}), encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _errno(error: Exception) -> int | None:
    """Find the operating system's error code; safetensors keeps it in its text only."""
    found = re.search(r"(?:code: |os error )(\d+)", str(error))
    return error.errno if isinstance(error, OSError) else int(found.group(1)) if found else None


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
