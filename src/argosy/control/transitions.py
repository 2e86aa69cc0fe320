"""Which state a job may go to from which, and what happens to a node's; everything else is an error by name.

Tables only; must not know why a job moves.
"""

from argosy.contracts.errors import ArgosyError

JOB_MOVES: dict[str, frozenset[str]] = {
    "waiting": frozenset({"reserved", "preparing", "ended"}),
    "reserved": frozenset({"waiting", "preparing", "ended"}),
    "preparing": frozenset({"preparing", "running", "recovering", "stopping"}),
    "running": frozenset({"recovering", "preparing", "stopping"}),
    "recovering": frozenset({"recovering", "preparing", "running", "stopping"}),
    "stopping": frozenset({"stopping", "waiting", "ended"}),
    "ended": frozenset(),
}


class BrokenStateError(ArgosyError):
    """The state was asked for what it can't do: a bug, or a log that does not belong to it."""


def illegal(text: str) -> BrokenStateError:
    """Make the error for a move that must not happen."""
    return BrokenStateError(f"{text}; rebuild the state from its snapshot and log, and report this")


def check_job(source: str, target: str, job: str) -> None:
    """Refuse a move of a job that the table does not have."""
    if target not in JOB_MOVES[source]:
        allowed = ", ".join(sorted(JOB_MOVES[source])) or "nothing"
        raise illegal(f"{job} can't go from {source} to {target} (from {source}: {allowed})")
