"""Rectangles of named tensors to and from a folder, so that any layout loads under any other.

The files are those of torch.distributed.checkpoint.
Each rank hands in the rectangles it owns (saving) or wants (loading); together the saved ones cover every tensor
exactly once. Knows nothing of models or steps. A checkpoint may come from a stranger: its metadata is a pickle, read
here with nothing but the classes that metadata is made of.
"""

import pickle
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError

_METADATA_MODULES = ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem")
_METADATA_NAMES = {("torch", "Size"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A rectangle of a named tensor: `tensor` holds it, `offsets` says where it lies in the whole of `whole_sizes`."""

    key: str
    whole_sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    tensor: Tensor

    @property
    def index(self) -> MetadataIndex:
        """How the checkpoint names it."""
        return MetadataIndex(self.key, torch.Size(self.offsets))

    @property
    def chunk(self) -> ChunkStorageMetadata:
        """Its place and size."""
        return ChunkStorageMetadata(offsets=torch.Size(self.offsets), sizes=self.tensor.size())


class _SavePieces(DefaultSavePlanner):
    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(flatten_state_dict=False)
        self.pieces = {piece.index: piece for piece in pieces}

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan([_write_item(piece) for piece in self.pieces.values()])
        return self.plan

    def resolve_data(self, write_item: WriteItem) -> Tensor:
        return self.pieces[_plain(write_item.index)].tensor.detach().contiguous()


class _LoadPieces(DefaultLoadPlanner):
    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(flatten_state_dict=False)
        self.pieces = {piece.index: piece for piece in pieces}

    def create_local_plan(self) -> LoadPlan:
        items: list[ReadItem] = []
        for piece in self.pieces.values():
            stored = (self.metadata.state_dict_metadata if self.metadata else {}).get(piece.key)
            if not isinstance(stored, TensorStorageMetadata):
                raise BadInputError(f"the checkpoint has no tensor {piece.key!r}; it belongs to another model")
            if tuple(stored.size) != piece.whole_sizes:
                raise BadInputError(
                    f"another model's checkpoint: its {piece.key} is {tuple(stored.size)}, here {piece.whole_sizes}"
                )
            items += create_read_items_for_chunk_list(piece.key, stored, [piece.chunk])
        return LoadPlan([_aimed(item, self.pieces) for item in items])

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        tensor = self.pieces[_plain(read_item.dest_index)].tensor.detach()
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            tensor = tensor.narrow(dim, start, length)
        return tensor

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing to do: the tensor was read into its place."""


def _aimed(item: ReadItem, pieces: dict[MetadataIndex, Piece]) -> ReadItem:
    if _plain(item.dest_index) not in pieces:
        raise RuntimeError(f"a read aims at {item.dest_index}, which is no piece of this rank")
    return item


def _plain(index: MetadataIndex) -> MetadataIndex:
    return MetadataIndex(index.fqn, index.offset)


def _write_item(piece: Piece) -> WriteItem:
    data = TensorWriteData(
        chunk=piece.chunk,
        properties=TensorProperties.create_from_tensor(piece.tensor),
        size=torch.Size(piece.whole_sizes),
    )
    return WriteItem(index=piece.index, type=WriteItemType.SHARD, tensor_data=data)


def save_pieces(pieces: Sequence[Piece], folder: Path, group: dist.ProcessGroup | None = None) -> None:
    """Write the pieces of all ranks; every rank calls it. Raises what the file system raises, on every rank."""
    save({}, checkpoint_id=folder, planner=_SavePieces(pieces), process_group=group)


def load_pieces(pieces: Sequence[Piece], folder: Path, *, alone: bool = False) -> None:
    """Read into the pieces' tensors, in place.

    alone: one process reads by itself; else every rank of the world calls it. Raises BadInputError, on every rank,
    where tensors are missing, of other sizes, or files are damaged; InfrastructureError where they can't be read.
    """
    reader = _Reader(folder)
    with warnings.catch_warnings():
        # torch warns that one process reads, which is what `alone` asks for.
        warnings.simplefilter("ignore", UserWarning)
        try:
            load({}, storage_reader=reader, planner=_LoadPieces(pieces), no_dist=alone)
        except CheckpointException as failed:
            cause = next(iter(failed.failures.values()))[0]
            raise _cannot_load(folder, cause) from cause


class _Reader(FileSystemReader):
    """Reads the metadata once, before ranks wait for one another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        try:
            with (folder / ".metadata").open("rb") as file:
                found = _Unpickler(file).load()
            if not isinstance(found, Metadata):
                raise pickle.UnpicklingError(f"{type(found).__name__} is no metadata")
        except Exception as error:
            raise _cannot_load(folder, error) from error
        self._metadata: Metadata = found

    def read_metadata(self) -> Metadata:
        return self._metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if _is_metadata(module, name) else None
        if found is None:
            raise pickle.UnpicklingError(f"metadata names {module}.{name}")
        return found


def _is_metadata(module: str, name: str) -> bool:
    if module == "torch":
        return (module, name) in _METADATA_NAMES or isinstance(getattr(torch, name, None), torch.dtype)
    if module in _METADATA_MODULES:
        # Not what these modules import themselves, such as `os`.
        return "." not in name and getattr(getattr(sys.modules[module], name, None), "__module__", "") == module
    return (module, name) in _METADATA_NAMES


def _cannot_load(folder: Path, cause: BaseException) -> ArgosyError:
    if isinstance(cause, BadInputError):
        return BadInputError(f"{folder}: {cause}")
    if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
        return InfrastructureError(f"{folder}: can't be read: {cause}")
    reason = str(cause).strip().splitlines() or [type(cause).__name__]
    if "weights_only" in str(cause):
        reason = ["a file of tensors holds something else"]  # torch's advice here is to unpickle it all the same
    return BadInputError(
        f"{folder}: a damaged checkpoint: {reason[0]}; move that folder away, and the one before it is taken"
    )
