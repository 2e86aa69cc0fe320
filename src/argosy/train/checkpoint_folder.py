"""What a folder of checkpoints holds: which are whole, and what each says of itself.

For the trainer that writes them and for the command line that only looks. Knows no torch and no tensors.
"""

from dataclasses import dataclass
from pathlib import Path

from argosy.contracts.codec import decode, encode
from argosy.contracts.errors import BadInputError
from argosy.contracts.paths import CHECKPOINT_FILE, checkpoint_name, checkpoint_step


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """What `argosy.json` in a checkpoint says. step: optimizer steps that are in it; tokens: trained so far.

    seed, global_batch_size, sequence_length, data: what the order of the batches follows from (data: the token set's
    fingerprint); a job that differs in one of them would not go on where this one stopped. tokenizer: the file that was
    copied beside it; empty without one.
    """

    step: int
    model: str
    seed: int
    global_batch_size: int
    sequence_length: int
    data: str
    tokens: int
    model_config: str
    tokenizer: str = ""
    version: int = 1


def folder_of(folder: Path, step: int) -> Path:
    """Give the folder of a step's checkpoint."""
    return folder / checkpoint_name(step)


def checkpoints(folder: Path) -> tuple[Path, ...]:
    """List the finished checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return ()
    named = [path for path in folder.iterdir() if checkpoint_step(path.name) is not None]
    found = [path for path in named if (path / CHECKPOINT_FILE).is_file()]
    return tuple(sorted(found))


def read_info(checkpoint: Path) -> CheckpointInfo:
    """Read a checkpoint's description. Raises BadInputError when it is no checkpoint."""
    try:
        info = decode((checkpoint / CHECKPOINT_FILE).read_bytes(), CheckpointInfo)
        if checkpoint_step(checkpoint.name) not in (None, info.step):
            raise BadInputError(f"says step {info.step}, its folder another")
        return info
    except OSError as error:
        raise BadInputError(f"{checkpoint}: not a checkpoint ({error.strerror}: {CHECKPOINT_FILE})") from error
    except BadInputError as error:
        next_best = "move that folder away, and the one before it is taken"
        raise BadInputError(f"{checkpoint / CHECKPOINT_FILE}: {error}; {next_best}") from error


def write_info(checkpoint: Path, info: CheckpointInfo) -> Path:
    """Write a checkpoint's description into its folder; gives the file. Raises OSError."""
    path = checkpoint / CHECKPOINT_FILE
    path.write_bytes(encode(info))
    return path
