"""`argosy export`: a checkpoint's weights as a folder that Hugging Face's loaders and servers read."""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.ending import newest_in
from argosy.cli.outputs import export
from argosy.contracts.errors import BadInputError
from argosy.contracts.paths import CHECKPOINT_FILE, STEP_DIGITS

DTYPES = ("fp32", "bf16", "fp16")


def command(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint, or the folder of several.")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="A new or empty folder, or an earlier export.")],
    dtype: Annotated[str, typer.Option(help=f"Of the weights written: {', '.join(DTYPES)}.")] = "fp32",
) -> None:
    """Write a checkpoint as safetensors with config.json and tokenizer; of several checkpoints, the newest."""
    if dtype not in DTYPES:
        raise BadInputError(f"--dtype {dtype}: write one of {', '.join(DTYPES)}")
    found = find_checkpoint(checkpoint)
    export(found, to, dtype)
    typer.echo(f"{found} -> {to}, {dtype}")


def find_checkpoint(path: Path) -> Path:
    """Find the checkpoint that a path means. Raises BadInputError."""
    if not path.is_dir():
        raise BadInputError(f"{path}: there is no such folder; give a checkpoint such as runs/NAME/step-00000100")
    if (path / CHECKPOINT_FILE).is_file():
        return path
    for folder in (path, path / "checkpoints"):
        newest = newest_in(folder)
        if newest is not None:
            return newest
    what = f"a folder step-N, N of {STEP_DIGITS} digits, with {CHECKPOINT_FILE}"
    raise BadInputError(f"{path}: holds no checkpoint ({what}); give the job's checkpoint.to")
