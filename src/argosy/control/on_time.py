"""Handlers of time: every timer that is due, by its purpose; one that no longer matters does nothing."""

from collections.abc import Callable

from argosy.contracts.event import PassDue, TimeReached
from argosy.control.attempts import free, stop
from argosy.control.change import JobAsked, JobMoved, TimersDone, Unreserved
from argosy.control.passing import run_pass
from argosy.control.recover import LOST, bring_back, failed_nodes, recover, vacate
from argosy.control.state import AttemptState
from argosy.control.windows import turn_windows
from argosy.control.work import Work


def pass_due(work: Work, _event: PassDue) -> None:
    """Run the pass."""
    run_pass(work)


def time_reached(work: Work, _event: TimeReached) -> None:
    """Set off all timers that are due, in order."""
    due = [timer for timer in work.state.timers if timer[0] <= work.now_us]
    if not due:
        work.refuse("time", "no timer is due yet")
        return
    work.change(TimersDone(up_to_us=work.now_us))
    for _, purpose, about in dict.fromkeys(due):
        TIMERS[purpose](work, about)


def _generation(work: Work, about: str) -> AttemptState | None:
    """Find the attempt of `ATTEMPT:GENERATION` if that generation is current and not stopping."""
    name, _, generation = about.rpartition(":")
    attempt = work.state.attempts.get(name)
    if attempt is None or str(attempt.generation) != generation:
        return None
    return None if work.state.jobs[attempt.job].state == "stopping" else attempt


def _recover(work: Work, about: str) -> None:
    """Recover from the failures gathered, unless the nodes answer again."""
    attempt = _generation(work, about)
    if attempt is None:
        return
    job = work.state.jobs[attempt.job]
    if job.state != "recovering":
        return
    if job.reason == LOST and not failed_nodes(work.state, attempt):
        work.change(JobMoved(job=job.id, to="running" if attempt.up else "preparing"))
        if not attempt.up:
            # That all ranks are at work may have been said, and passed over, meanwhile; so may the launch's deadline.
            work.launch(attempt)
            work.later(work.state.policy.prepare_s, "prepare", f"{attempt.id}:{attempt.generation}")
    else:
        recover(work, attempt, job.reason)


def _retry(work: Work, about: str) -> None:
    """Restart what waited for its back-off."""
    attempt = _generation(work, about)
    if attempt is not None and work.state.jobs[attempt.job].state == "recovering":
        bring_back(work, attempt, work.state.jobs[attempt.job].reason)


def _prepare(work: Work, about: str) -> None:
    """Answer a launch that took too long."""
    attempt = _generation(work, about)
    if attempt is not None and work.state.jobs[attempt.job].state == "preparing":
        recover(work, attempt, "the launch took too long")


def _limit(work: Work, about: str) -> None:
    """End a job whose time limit is over; it is not queued again."""
    attempt = work.state.attempts.get(about)
    if attempt is not None and work.state.jobs[attempt.job].state != "stopping":
        stop(work, work.state.jobs[attempt.job], "time_limit", "its time limit is over")


def _lease(work: Work, about: str) -> None:
    """Free a node that does not answer: it has parked its ranks by now."""
    nodes = work.state.nodes
    number = nodes.number[about]
    still = nodes.observed[number] == "down" and nodes.lease_us[number] <= work.now_us
    if still and nodes.leaving[number]:
        free(work, (number,))


def _backoff(work: Work, _about: str) -> None:
    work.want_pass()


def _pin(work: Work, about: str) -> None:
    """Give nodes that were kept for a job too long back to all."""
    reservation = work.state.reservations.get(about)
    if reservation is not None and 0 < reservation.expires_us <= work.now_us:
        work.change(Unreserved(job=about))
        work.want_pass()


def _options(work: Work, about: str) -> None:
    """Have the planner asked again once the options of a job that waits are out of date; till then they hold."""
    job = work.state.jobs.get(about)
    if job is not None and job.state in ("waiting", "reserved"):
        work.change(JobAsked(job=about))
        work.ask_options(about, "its options are out of date")


def _maintenance(work: Work, _about: str) -> None:
    turn_windows(work)


def _drain(work: Work, _about: str) -> None:
    """Empty the draining nodes whose deadline has come."""
    nodes = work.state.nodes
    vacate(work, {number for number, by_us in enumerate(nodes.empty_by_us) if by_us <= work.now_us}, "drained")


TIMERS: dict[str, Callable[[Work, str], None]] = {
    "recover": _recover,
    "retry": _retry,
    "prepare": _prepare,
    "limit": _limit,
    "lease": _lease,
    "backoff": _backoff,
    "pass": _backoff,
    "round": _backoff,
    "pin": _pin,
    "options": _options,
    "maintenance": _maintenance,
    "drain": _drain,
}
