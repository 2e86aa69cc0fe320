"""Checkpoints of a training job: written beside and renamed, readable under any other plan.

A checkpoint is a folder `step-00000020` with the tensors (`model.*`, `first_moment.*`, `second_moment.*`, whole float32
tensors by name) and `argosy.json` (step, model, seed). A folder that ends in `.writing` was never finished and is
removed when a job begins or saves; one that begins with `old-` was set aside by a job that does not resume. Knows
nothing of pipelines; ranks come in by the blocks they own.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from argosy.comm.blockfile import Piece, load_pieces, save_pieces
from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.train.blocks import Block
from argosy.train.exchange import GradientExchange
from argosy.train.optimizer import BlockOptimizer
from argosy.train.tensor_parallel import local_tensor

# What torch says when a write fails inside its own file format.
_WRITE_FAILED = re.compile(r"failed writing|unexpected pos|No space left", re.IGNORECASE)
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Every second time torch hides the system's error behind its own; then a disk with so little left is taken as full.
_FULL_BYTES = 64 * 2**20
_NAME = re.compile(r"step-\d{8}")
_SET_ASIDE = "old-"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """What `argosy.json` in a checkpoint says. step: optimizer steps that are in it; tokens: trained so far.

    tokenizer: the file that was copied beside it; empty without one.
    """

    step: int
    model: str
    seed: int
    tokens: int
    model_config: str
    tokenizer: str = ""
    version: int = 1


def checkpoints(folder: Path) -> tuple[Path, ...]:
    """List the finished checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return ()
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and (path / "argosy.json").is_file()]
    return tuple(sorted(found))


def read_info(checkpoint: Path) -> CheckpointInfo:
    """Read a checkpoint's description. Raises BadInputError when it is no checkpoint."""
    try:
        return decode((checkpoint / "argosy.json").read_bytes(), CheckpointInfo)
    except OSError as error:
        raise BadInputError(f"{checkpoint}: not a checkpoint ({error.strerror}: argosy.json)") from error
    except BadInputError as error:
        raise BadInputError(f"{checkpoint / 'argosy.json'}: {error}") from error


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

    def begin(self, *, resume: bool) -> tuple[Path, ...]:
        """Make the folder ready before the first step; every rank calls it. Gives the checkpoints it has, oldest first.

        resume: else checkpoints of an earlier run are set aside, so that they are neither resumed from nor counted in
        `keep`. Raises InfrastructureError where the folder can't be written, so that no step is run in vain.
        """
        _agree(self.folder, lambda: _make_ready(self.folder, resume=resume))
        # Rank 0's word, for file systems may show the others an older state.
        found: list[tuple[Path, ...]] = [checkpoints(self.folder)]
        dist.broadcast_object_list(found, src=0)
        return found[0]

    def save(self, info: CheckpointInfo) -> Path:
        """Write a checkpoint; every rank calls it.

        Raises InfrastructureError (disk full, no permission) on every rank; then nothing half-written stays and older
        checkpoints are untouched.
        """
        final = self.folder / f"step-{info.step:08d}"
        writing = final.with_suffix(".writing")
        _agree(self.folder, lambda: _make_empty(writing))
        try:
            save_pieces(self._owned(), writing)
        except (CheckpointException, OSError) as error:
            why = _cannot_save(self.folder, error)
            dist.barrier()
            if dist.get_rank() == 0:
                shutil.rmtree(writing, ignore_errors=True)
            raise why from error
        _agree(self.folder, lambda: _publish(writing, final, info, self.keep))
        return final

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
    outcome: list[OSError | None] = [None]
    if dist.get_rank() == 0:
        try:
            act()
        except OSError as error:
            outcome = [error]
    dist.broadcast_object_list(outcome, src=0)
    if outcome[0] is not None:
        raise _cannot_save(folder, outcome[0]) from outcome[0]


def _make_ready(folder: Path, *, resume: bool) -> None:
    probe = folder / "step-probe.writing"
    _make_empty(probe)
    probe.rmdir()
    for earlier in () if resume else checkpoints(folder):
        aside = folder / f"{_SET_ASIDE}{earlier.name}"
        if aside.exists():
            shutil.rmtree(aside)
        os.replace(earlier, aside)


def _make_empty(writing: Path) -> None:
    writing.parent.mkdir(parents=True, exist_ok=True)
    for stale in writing.parent.glob("step-*.writing"):
        shutil.rmtree(stale)
    writing.mkdir()


def _publish(writing: Path, final: Path, info: CheckpointInfo, keep: int) -> None:
    if Path(info.tokenizer).is_file():
        shutil.copyfile(info.tokenizer, writing / "tokenizer.json")
    (writing / "argosy.json").write_bytes(encode(info))
    _sync(writing / "argosy.json")
    if final.exists():
        shutil.rmtree(final)
    os.replace(writing, final)
    _sync(final.parent)
    for old in checkpoints(final.parent)[:-keep]:
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
