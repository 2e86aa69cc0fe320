"""Whose fault an error is, as far as its class and text say: the user's, the infrastructure's or Argosy's.

Pure judgement of one exception or one text; joining the evidence of many ranks is the room `health`.
"""

import re

from argosy.contracts.errors import ArgosyError, InfrastructureError

USER = "user"
INFRASTRUCTURE = "infrastructure"
ARGOSY = "argosy"

_EXIT_CODES = {USER: 4, INFRASTRUCTURE: 5, ARGOSY: 1}

# What gloo, NCCL and the TCPStore say on a healthy rank whose peer went away (torch 2.13).
_PEER_SYMPTOM = re.compile(
    r"closed by peer|reset by peer|broken pipe|connection refused|connection reset|socket closed"
    r"|caused pair closure|timed out waiting|wait timeout|client socket has timed out|got 0 bytes"
    r"|connection was likely closed|connection timed out|timed out connecting|remote process exited",
    re.IGNORECASE,
)


def is_peer_symptom(text: str) -> bool:
    """Tell whether an error's text only says that another process went away."""
    return _PEER_SYMPTOM.search(text) is not None


def blame_of(error: BaseException) -> str:
    """Name who is to blame for an exception: `user`, `infrastructure` or `argosy`.

    Operating-system errors, lack of memory and lost peers are infrastructure; what no class explains is our bug, and so
    is a bare ArgosyError, which blames nobody.
    """
    if isinstance(error, InfrastructureError):
        return INFRASTRUCTURE
    if isinstance(error, ArgosyError):
        return ARGOSY if error.exit_code == ArgosyError.exit_code else USER
    if isinstance(error, OSError | MemoryError) or is_peer_symptom(str(error)):
        return INFRASTRUCTURE
    # torch's own classes are known by name, since this package doesn't import torch
    if any(kind.__name__ in ("OutOfMemoryError", "DistError") for kind in type(error).__mro__):
        return INFRASTRUCTURE
    return ARGOSY


def exit_code_of(error: BaseException) -> int:
    """Choose the status that a process leaves with after an exception escaped it."""
    if isinstance(error, ArgosyError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130
    return _EXIT_CODES[blame_of(error)]
