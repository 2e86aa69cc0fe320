"""Turn a checkpoint, whatever plan wrote it, into a folder that Hugging Face's loaders read.

One process, one layer in memory at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from argosy.comm.blockfile import Piece, load_pieces
from argosy.model.config import read_config
from argosy.model.shape import ModelShape
from argosy.train.checkpoint_folder import read_info
from argosy.train.decoder import unit_of
from argosy.train.weights.exporting import export_hf
from argosy.train.weights.names import parameter_shapes


def export_checkpoint(checkpoint: Path, to: Path, *, dtype: str = "fp32") -> None:
    """Write the checkpoint's weights, config and tokenizer to the folder `to`.

    Raises BadInputError when `checkpoint` is none or `to` holds anything but an earlier export; InfrastructureError
    when the disk is full.
    """
    info = read_info(checkpoint)
    shape = read_config(info.model_config, str(checkpoint / "argosy.json"))
    tokenizer = checkpoint / "tokenizer.json"
    export_hf(
        whole_tensors(checkpoint, shape),
        config_text=info.model_config,
        tokenizer=tokenizer if tokenizer.is_file() else None,
        to=to,
        dtype=dtype,
    )


def whole_tensors(checkpoint: Path, shape: ModelShape) -> Iterator[tuple[str, Tensor]]:
    """Read every parameter of a checkpoint, whole and in float32, a unit at a time."""
    by_unit: dict[int, dict[str, tuple[int, ...]]] = {}
    for name, sizes in parameter_shapes(shape).items():
        by_unit.setdefault(unit_of(name, shape.num_layers), {})[name] = sizes
    for names in by_unit.values():
        tensors = {name: torch.empty(sizes) for name, sizes in names.items()}
        pieces = [
            Piece(key=f"model.{name}", whole_sizes=sizes, offsets=(0,) * len(sizes), tensor=tensors[name])
            for name, sizes in names.items()
        ]
        load_pieces(pieces, checkpoint, alone=True)
        yield from tensors.items()
