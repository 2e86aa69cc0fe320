"""Checkpoints of a training job: written beside and renamed, readable under any other plan.

A checkpoint is a folder `step-00000020` with the tensors (`model.*`, `first_moment.*`, `second_moment.*`, whole float32
tensors by name) and `argosy.json` (step, model, seed). A folder that ends in `.writing` was never finished and is
removed when a job begins or saves; one that begins with `old-` was set aside by a job that does not resume. Knows
nothing of pipelines; ranks come in by the blocks they own.
"""

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from argosy.comm.blockfile import Piece, load_pieces, save_pieces
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.train.blocks import Block
from argosy.train.checkpoint_folder import (
    CheckpointInfo,
    checkpoints,
    folder_of,
    read_info,
    write_info,
)
from argosy.train.data.folders import put_over
from argosy.train.exchange import GradientExchange
from argosy.train.optimizer import BlockOptimizer
from argosy.train.tensor_parallel import local_tensor

# What torch says when a write fails inside its own file format.
_WRITE_FAILED = re.compile(r"failed writing|unexpected pos|No space left", re.IGNORECASE)
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Every second time torch hides the system's error behind its own; then a disk with so little left is taken as full.
_FULL_BYTES = 64 * 2**20
_SET_ASIDE = "old-"


class Checkpointer:
    """Saves and loads one rank's part of the training state."""

    def __init__(
        self,
        folder: Path,
        exchange: GradientExchange,
        optimizer: BlockOptimizer,
        *,
        keep: int,
    ) -> None:
        self.folder = folder
        self.exchange = exchange
        self.optimizer = optimizer
        self.keep = keep
        self._lock: IO[bytes] | None = None

    def begin(self, *, resume: bool) -> tuple[Path, ...]:
        """Make the folder ready before the first step; every rank calls it. Gives the checkpoints it has, oldest first.

        The folder is locked until this process ends, for two jobs that save to one would spoil each other's files.

        resume: else checkpoints of an earlier run are set aside, so that they are neither resumed from nor counted in
        `keep`. Raises InfrastructureError where the folder can't be written, so that no step is run in vain, and
        BadInputError where another job holds it.
        """

        def prepare() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.folder)
            _make_ready(self.folder, resume=resume)

        _agree(self.folder, prepare)
        # Rank 0's word, for file systems may show the others an older state.
        found: list[tuple[Path, ...]] = [checkpoints(self.folder)]
        dist.broadcast_object_list(found, src=0)
        return found[0]

    def save(self, info: CheckpointInfo) -> Path:
        """Write a checkpoint; every rank calls it.

        Raises InfrastructureError (disk full, no permission) on every rank; then nothing half-written stays and older
        checkpoints are untouched.
        """
        final = folder_of(self.folder, info.step)
        writing = final.with_suffix(".writing")
        _agree(self.folder, lambda: _make_empty(writing))
        try:
            self._write(writing)
            _agree(self.folder, lambda: _publish(writing, final, info))
        except InfrastructureError:
            dist.barrier()
            if dist.get_rank() == 0:
                shutil.rmtree(writing, ignore_errors=True)
            raise
        _agree(self.folder, lambda: _drop_old(self.folder, self.keep))
        return final

    def _write(self, writing: Path) -> None:
        try:
            save_pieces(self._owned(), writing)
        except (CheckpointException, OSError) as error:
            raise _cannot_save(self.folder, error) from error

    def load(self, checkpoint: Path) -> None:
        """Read parameters and moments from a checkpoint of any plan; every rank calls it."""
        self.load_weights(checkpoint)
        pieces: list[Piece] = []
        for block, first, second in self.optimizer.moments():
            pieces += [self._piece("first_moment", block, first), self._piece("second_moment", block, second)]
        load_pieces(pieces, checkpoint)
        self.optimizer.set_step(read_info(checkpoint).step)

    def load_weights(self, checkpoint: Path) -> None:
        """Read the parameters alone."""
        pieces = [
            self._piece("model", self.exchange.local[name], local_tensor(parameter))
            for name, parameter in self.exchange.parameters.items()
        ]
        load_pieces(pieces, checkpoint)

    def _owned(self) -> list[Piece]:
        """List what this rank saves: of blocks that several ranks own alike, the first rank's."""
        saved = {block for bucket in self.exchange.buckets if bucket.counted for block in bucket.own}
        views = dict(self.optimizer.blocks)
        pieces: list[Piece] = []
        for block, first, second in self.optimizer.moments():
            if block in saved:
                pieces += [
                    self._piece("model", block, views[block]),
                    self._piece("first_moment", block, first),
                    self._piece("second_moment", block, second),
                ]
        return pieces

    def _piece(self, kind: str, block: Block, tensor: torch.Tensor) -> Piece:
        return Piece(
            key=f"{kind}.{block.name}",
            whole_sizes=self.exchange.whole_sizes[block.name],
            offsets=block.offsets,
            tensor=tensor,
        )


def _agree(folder: Path, act: Callable[[], None]) -> None:
    """Let rank 0 act on the file system, and raise its failure on every rank."""
    outcome: list[ArgosyError | None] = [None]
    if dist.get_rank() == 0:
        try:
            act()
        except ArgosyError as error:
            outcome = [error]
        except OSError as error:
            outcome = [_cannot_save(folder, error)]
    dist.broadcast_object_list(outcome, src=0)
    if outcome[0] is not None:
        raise outcome[0]


def _lock(folder: Path) -> IO[bytes]:
    held = (folder / ".lock").open("ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        held.close()
        raise BadInputError(
            f"checkpoint.to: another job that runs now saves to {folder}; wait for it, or give this job its own folder"
        ) from error
    return held


def _make_ready(folder: Path, *, resume: bool) -> None:
    probe = folder / "step-probe.writing"
    _make_empty(probe)
    probe.rmdir()
    for earlier in () if resume else checkpoints(folder):
        os.replace(earlier, _free_name(folder / f"{_SET_ASIDE}{earlier.name}"))


def _free_name(wanted: Path) -> Path:
    """Give a name that nothing has yet: the wanted one, else with a number behind it."""
    name, number = wanted, 1
    while name.exists():
        number += 1
        name = wanted.with_name(f"{wanted.name}-{number}")
    return name


def _make_empty(writing: Path) -> None:
    writing.parent.mkdir(parents=True, exist_ok=True)
    for stale in writing.parent.glob("step-*.writing"):
        shutil.rmtree(stale)
    writing.mkdir()


def _publish(writing: Path, final: Path, info: CheckpointInfo) -> None:
    """Complete a written checkpoint and give it its name; one of the same step stays whole until then."""
    if Path(info.tokenizer).is_file():
        shutil.copyfile(info.tokenizer, writing / "tokenizer.json")
    _sync(write_info(writing, info))
    _sync(writing)
    put_over(writing, final)
    _sync(final.parent)


def _drop_old(folder: Path, keep: int) -> None:
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_save(folder: Path, error: BaseException) -> InfrastructureError:
    """Say in one line why a checkpoint could not be saved; what is no fault of a disk is raised again."""
    causes: list[BaseException] = [error]
    if isinstance(error, CheckpointException):
        causes = [failure[0] for failure in error.failures.values()]
    if not any(isinstance(cause, OSError) or _WRITE_FAILED.search(str(cause)) for cause in causes):
        raise error
    free_bytes = shutil.disk_usage(_existing(folder)).free
    known = [cause.errno for cause in causes if isinstance(cause, OSError)]
    if any(code in _FULL for code in known) or (not known and free_bytes < _FULL_BYTES):
        return InfrastructureError(
            f"disk full while saving a checkpoint in {folder} ({free_bytes / 1e9:.2f} GB free); "
            "earlier checkpoints are untouched. "
            "Free some space, or set checkpoint.to to another disk; then run the same command again, it resumes."
        )
    return InfrastructureError(f"cannot save a checkpoint in {folder}: {causes[0]}; earlier checkpoints are untouched")


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
