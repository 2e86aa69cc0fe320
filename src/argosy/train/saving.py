"""When a job saves, where it goes on, and whether it is asked to leave: the rules of `job.yaml` for one rank.

All ranks decide alike. How a checkpoint is written is `train.checkpoint`.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from argosy.contracts.errors import BadInputError
from argosy.contracts.messages import Launch, Note, Saved, Upward
from argosy.model.config import read_config
from argosy.train.build import Parts
from argosy.train.checkpoint import Checkpointer
from argosy.train.checkpoint_folder import CheckpointInfo, read_info
from argosy.train.data.tokens import fingerprint
from argosy.train.leaving import Leaving

Report = Callable[[Upward], None]
_SHOWN = 4


class Saving:
    """Saves when due and resumes from the newest checkpoint; does nothing where the job has no `checkpoint`."""

    def __init__(self, launch: Launch, parts: Parts, rank: int, device: torch.device) -> None:
        self.launch = launch
        spec = launch.job.checkpoint
        self.checkpointer = None
        if spec is not None:
            self.checkpointer = Checkpointer(Path(spec.to), parts.exchange, parts.optimizer, keep=spec.keep)
        self.leaving = Leaving(watched=launch.save_on_stop)
        self.rank = rank
        self.device = device
        self._saved_at_s = time.monotonic()

    def resume(self, report: Report) -> int:
        """Load the newest checkpoint if the job says so. Gives the step to run next.

        Raises BadInputError when the newest is damaged or another model's; InfrastructureError when the folder can't be
        written.
        """
        spec = self.launch.job.checkpoint
        self._saved_at_s = time.monotonic()
        if self.checkpointer is None or spec is None:
            return 0
        found = self.checkpointer.begin(resume=spec.resume)
        if not found:
            return 0
        newest = found[-1]
        info = read_info(newest)
        _check_model(newest, info, self.launch.model_config)
        _check_batches(newest, info, self._info(info.step))
        self.checkpointer.load(newest)
        if self.rank == 0:
            report(Note(text=f"resumed from {newest} at step {info.step}"))
        return info.step

    def is_due(self, step: int) -> bool:
        """Decide whether to save after `step` steps; the last step always saves."""
        spec = self.launch.job.checkpoint
        if spec is None:
            return False
        if step == self.launch.job.train.steps:
            return True
        if spec.every_steps is not None and step % spec.every_steps == 0:
            return True
        if spec.every_s is None:
            return False
        # Clocks differ a little between ranks; rank 0's decides.
        due = torch.tensor([float(time.monotonic() - self._saved_at_s >= spec.every_s)], device=self.device)
        dist.broadcast(due, src=0)
        return bool(due.item())

    def save(self, step: int, report: Report) -> None:
        """Write a checkpoint of the state after `step` steps."""
        if self.checkpointer is None:
            return
        began_s = time.monotonic()
        path = self.checkpointer.save(self._info(step))
        report(Saved(step=step, path=str(path), wall_s=time.monotonic() - began_s))
        self._saved_at_s = time.monotonic()

    def _info(self, step: int) -> CheckpointInfo:
        plan = self.launch.plan
        return CheckpointInfo(
            step=step,
            model=plan.model,
            seed=self.launch.job.train.seed,
            global_batch_size=plan.global_batch_size,
            sequence_length=plan.sequence_length,
            data=fingerprint(Path(self.launch.tokens)),
            tokens=step * plan.global_batch_size * plan.sequence_length,
            model_config=self.launch.model_config,
            tokenizer=str(Path(self.launch.tokens) / "tokenizer.json"),
        )


def _check_batches(checkpoint: Path, theirs: CheckpointInfo, ours: CheckpointInfo) -> None:
    """Refuse to go on with other batches: data would be skipped or seen twice, unnoticed."""
    keys = {"seed": "train.seed", "global_batch_size": "train.global_batch_size"}
    keys |= {"sequence_length": "train.sequence_length", "data": "the tokens of data.files"}
    other = [key for key in keys if getattr(theirs, key) != getattr(ours, key)]
    if other:
        differences = ", ".join(f"{keys[key]} {getattr(theirs, key)}, here {getattr(ours, key)}" for key in other)
        raise BadInputError(
            f"{checkpoint} was trained on other batches: {differences}; a run goes on only with its own. To start anew "
            f"from its weights: `argosy export {checkpoint} weights`, then initial_weights: weights and another "
            "folder in checkpoint.to"
        )


def _check_model(checkpoint: Path, info: CheckpointInfo, model_config: str) -> None:
    """Refuse another model's checkpoint, also one that holds all tensors of this model and more."""
    theirs = asdict(read_config(info.model_config, str(checkpoint / "argosy.json")))
    ours = asdict(read_config(model_config, info.model))
    other = [key for key in ours if key not in ("name", "max_positions") and theirs[key] != ours[key]]
    if other:
        differences = ", ".join(f"{key} {theirs[key]}, here {ours[key]}" for key in other[:_SHOWN])
        raise BadInputError(
            f"{checkpoint} is another model's checkpoint: {differences}; "
            "give the job its own folder in checkpoint.to, or set checkpoint.resume to no"
        )
