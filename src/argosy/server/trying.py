"""One pass on a copy of the state with a job that is not handed in: would it start, and whom would it stop.

Pure but for what the core itself does to the copy. Must not know where options come from.
"""

from collections.abc import Iterable

import msgspec

from argosy.contracts.command import Stop
from argosy.contracts.event import JobSubmitted, PassDue
from argosy.control import core
from argosy.control.explain import explain
from argosy.control.snapshot import restore, snapshot
from argosy.control.state import State
from argosy.server.intake import refusal_of
from argosy.server.models import DryRun


class Copies:
    """Gives the bytes that copies of a state are made from, made once for each number of the log."""

    def __init__(self) -> None:
        self._seq, self._data = -1, b""

    def of(self, state: State) -> bytes:
        """Give the bytes of a state as it is."""
        if self._seq != state.seq:
            self._seq, self._data = state.seq, snapshot(state)
        return self._data


def try_out(data: bytes, submitted: JobSubmitted, now_us: int) -> DryRun:
    """Hand a job in to a copy of the state and run one pass; gives all but the offers. data: snapshot of the state."""
    state = restore(data)
    stamp = {"now_us": max(now_us, state.now_us), "term": state.term}
    first = core.step(state, msgspec.structs.replace(submitted, seq=state.seq + 1, **stamp))
    name, claim = f"job-{first.event.seq}", submitted.claim
    if name not in state.jobs:
        return DryRun(name=claim.name, queue=claim.queue, offers=[], state="refused", text=refusal_of(first))
    second = core.step(state, PassDue(seq=state.seq + 1, **stamp))
    job, why = state.jobs[name], explain(state, name)
    attempt = state.attempts.get(job.attempt)
    return DryRun(
        name=claim.name,
        queue=claim.queue,
        offers=[],
        state="refused" if job.state == "ended" else job.state,
        nodes=list(state.nodes.names(attempt.all_nodes())) if attempt else [],
        text=why.text if why else job.text,
        why=why.code if why else job.reason,
        start_p50_us=why.eta_p50_us if why else None,
        start_p90_us=why.eta_p90_us if why else None,
        start_text=why.start_unknown if why else "",
        preempts=_stopped(state, second.commands),
    )


def _stopped(state: State, commands: Iterable[object]) -> list[str]:
    """Name the jobs that would be stopped for it."""
    attempts = {command.attempt for command in commands if isinstance(command, Stop)}
    jobs = {attempt.rpartition(".")[0] for attempt in attempts}
    return sorted(f"{state.jobs[job].claim.name} ({job})" for job in jobs if job in state.jobs)
