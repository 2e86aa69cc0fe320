"""A job's tokens, made ready on this node by a process of the trainer's, whose libraries the agent doesn't load."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from argosy.contracts.blame import USER
from argosy.contracts.errors import ArgosyError, InfrastructureError, UserCodeError
from argosy.contracts.messages import Launch

MODULE = "argosy.train.preparing"


def prepare_tokens(launch: Launch, log: Path) -> str:
    """Make a job's tokens, or find them in the cache; gives their folder. log: of what else the process says.

    Raises UserCodeError for what is wrong with the data, InfrastructureError for the rest.
    """
    try:
        with log.open("ab") as errors:
            done = subprocess.run(
                [sys.executable, "-P", "-m", MODULE],
                input=msgspec.json.encode(launch),
                stdout=subprocess.PIPE,
                stderr=errors,
                check=False,
            )
    except OSError as error:
        raise InfrastructureError(f"the data can't be made ready: {error.strerror}") from error
    last = _last(done.stdout)
    if "tokens" in last:
        return str(last["tokens"])
    kind: type[ArgosyError] = UserCodeError if last.get("blame") == USER else InfrastructureError
    raise kind(str(last.get("failed", f"the data can't be made ready (code {done.returncode}); see {log}")))


def _last(output: bytes) -> dict[str, Any]:
    """Read the last line that the process said."""
    try:
        found: dict[str, Any] = msgspec.json.decode(output.splitlines()[-1], type=dict[str, Any])
    except (IndexError, msgspec.MsgspecError):
        return {}
    return found
