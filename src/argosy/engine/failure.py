"""Which of many ranks' last words names the cause: when one rank dies, what the others say are symptoms.

Pure; a first judgement from messages alone. Evidence from traces, kernels and vendor codes is the room `health`.
"""

from collections.abc import Iterable
from typing import TypeGuard

from argosy.contracts.blame import ARGOSY, INFRASTRUCTURE, USER, is_peer_symptom
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError, NeverFitsError, UserCodeError
from argosy.contracts.messages import Failed, RankExited, Upward
from argosy.engine.children import describe_code

_BY_BLAME = {USER: UserCodeError, INFRASTRUCTURE: InfrastructureError, ARGOSY: ArgosyError}
_BY_CODE = {kind.exit_code: kind for kind in (BadInputError, NeverFitsError, UserCodeError, InfrastructureError)}


def first_failure(messages: Iterable[Upward]) -> Failed | RankExited | None:
    """Choose the message that names the cause; None when nothing failed. messages: in the order they came.

    Best first: a rank or agent that blames the user or the infrastructure and speaks of no peer; then the earliest of
    a rank killed by a signal or one that blames Argosy; then a rank that ended with a code other than 0; then one
    that lost a peer.
    """
    best: Failed | RankExited | None = None
    best_class = 4
    for message in messages:
        if is_failure(message) and _class(message) < best_class:
            best, best_class = message, _class(message)
    return best


def is_failure(message: Upward) -> TypeGuard[Failed | RankExited]:
    """Tell whether a message says that something went wrong."""
    return _class(message) < 4


def failure_error(failure: Failed | RankExited) -> ArgosyError:
    """Turn the message that names the cause into the error that a person reads; its class carries the exit code."""
    who = f"rank {failure.rank}" if failure.rank >= 0 else "the agent"
    where = f"{who} on {failure.node}" if failure.node else who
    if isinstance(failure, Failed):
        kind = _BY_CODE.get(failure.exit_code) or _BY_BLAME.get(failure.blame, ArgosyError)
        return kind(f"{where}: {failure.text}")
    if failure.code > 0:
        kind = _BY_CODE.get(failure.code, ArgosyError)
        return kind(f"{where} {describe_code(failure.code)} without a word")
    advice = "; the kernel kills when memory is short: see `dmesg`" if failure.code == -9 else ""
    return InfrastructureError(f"{where} {describe_code(failure.code)} without a word{advice}")


def _class(message: Upward) -> int:
    """Order of preference: 0 names a cause, 3 is a symptom, 4 is no failure."""
    match message:
        case Failed():
            if is_peer_symptom(message.text):
                return 3
            return 1 if message.blame == ARGOSY else 0
        case RankExited(code=code):
            if code == 0:
                return 4
            return 1 if code < 0 else 2
    return 4
