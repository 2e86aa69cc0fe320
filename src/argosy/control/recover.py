"""What to do when a running attempt loses nodes or its ranks fail: replace, restart, shrink, or go back to the queue.

All failed nodes of an attempt are replaced together. Must not judge faults: `health` did that.
"""

from functools import partial

from argosy.control.attempts import Parts, leave, regroup, spend, stop
from argosy.control.change import JobMoved, JobTold
from argosy.control.domains import RACK, SITE, SPINE, domain_at, together
from argosy.control.nodes import NodeTable
from argosy.control.place import needed_until
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import LOST_NODES, AttemptState, JobState, State
from argosy.control.work import Work

LOST = "nodes lost"
"""Why an attempt recovers whose nodes do not answer: if they answer again in time, nothing was lost."""


def failed_nodes(state: State, attempt: AttemptState) -> tuple[int, ...]:
    """List an attempt's nodes that are gone, in quarantine, or that its job must not have."""
    nodes, avoid = state.nodes, state.jobs[attempt.job].avoid
    return tuple(
        number
        for number in attempt.all_nodes()
        if nodes.observed[number] == "down" or nodes.trust[number] != "ok" or number in avoid or nodes.retired[number]
    )


def gather(work: Work, attempt: AttemptState, reason: str = LOST) -> None:
    """Wait a moment for further failures of the same attempt, so that they are answered together."""
    job = work.state.jobs[attempt.job]
    if job.state in ("preparing", "running"):
        work.change(JobMoved(job=job.id, to="recovering", reason=reason))
        work.later(work.state.policy.gather_s, "recover", f"{attempt.id}:{attempt.generation}")
    elif job.state == "recovering" and job.reason == LOST != reason:
        work.change(JobMoved(job=job.id, to="recovering", reason=reason))


def recover(work: Work, attempt: AttemptState, reason: str) -> None:
    """Bring an attempt back: nodes replaced, or in place when none failed; later if its back-off says so."""
    job = work.state.jobs[attempt.job]
    if not spend(work, job, "infrastructure"):
        stop(work, job, "failed_infrastructure", f"{reason}; all infrastructure retries are used up")
        return
    if job.not_before_us > work.now_us:
        if job.state != "recovering":
            work.change(JobMoved(job=job.id, to="recovering", reason=reason))
        work.at(job.not_before_us, "retry", f"{attempt.id}:{attempt.generation}")
        return
    bring_back(work, attempt, reason)


def bring_back(work: Work, attempt: AttemptState, reason: str) -> None:
    """Restart on the nodes there are: same rung with replacements, else a smaller rung, else through the queue."""
    state = work.state
    job = state.jobs[attempt.job]
    failed = failed_nodes(state, attempt)
    parts = replaced(state, attempt, set(failed))
    if parts is not None:
        if failed:
            fresh = sorted({n for part in parts for n in part} - set(attempt.all_nodes()))
            text = f"{reason}: {state.nodes.shown(failed)} replaced by {state.nodes.shown(fresh)}"
            work.tell(job.id, text)
        regroup(work, attempt, attempt.rung, parts, reason)
        return
    smaller = _shrunk(state, job, attempt, set(failed))
    if smaller is not None:
        work.tell(job.id, f"{reason}: goes on with {smaller[0].nodes} of {attempt.rung.nodes} nodes")
        regroup(work, attempt, smaller[0], smaller[1], reason)
        return
    survivors = tuple(number for number in attempt.all_nodes() if number not in failed)
    work.ask_options(job.id, f"{reason}; no replacement for {state.nodes.shown(failed)}", survivors)
    stop(work, job, LOST_NODES, f"{reason}; no replacement for {state.nodes.shown(failed)}")


def vacate(work: Work, numbers: set[int], reason: str) -> None:
    """Move whatever runs off nodes: to replacements where there are some, else back to the queue."""
    state = work.state
    for name in sorted({state.nodes.holder[number] for number in numbers} & set(state.attempts)):
        attempt = state.attempts[name]
        job = state.jobs[attempt.job]
        going = {number for number in attempt.all_nodes() if number in numbers}
        if job.state == "stopping" or not going:
            continue
        # Nodes that failed meanwhile must not be part of the next generation either.
        going |= set(failed_nodes(state, attempt))
        parts = replaced(state, attempt, going)
        if parts is not None:
            regroup(work, attempt, attempt.rung, parts, reason)
        else:
            stop(work, job, reason, f"{state.nodes.shown(sorted(going))} must be empty")


def blame_nodes(work: Work, attempt: AttemptState, numbers: tuple[int, ...], evidence: str) -> None:
    """Remember evidence, and nodes that a job never gets again."""
    work.change(JobTold(job=attempt.job, evidence=evidence, avoid=numbers))


def replaced(state: State, attempt: AttemptState, failed: set[int]) -> Parts | None:
    """Swap all failed nodes for spares, else free nodes, of the same rack, spine, site in turn; None if too few."""
    parts: list[tuple[int, ...]] = []
    used: set[int] = set()
    for part, numbers in zip(attempt.rung.parts, attempt.nodes, strict=True):
        kept = [number for number in numbers if number not in failed]
        lost = [number for number in numbers if number in failed]
        found = _stand_ins(state, attempt, part, kept, lost, used) if lost else []
        if len(found) < len(lost):
            return None
        used |= set(found)
        fresh = iter(found)
        parts.append(tuple(next(fresh) if number in failed else number for number in numbers))
    return tuple(parts)


def _stand_ins(
    state: State, attempt: AttemptState, part: RungPart, kept: list[int], lost: list[int], used: set[int]
) -> list[int]:
    """Choose a replacement for each lost node within the domain that the survivors of a part share, spares first."""
    nodes, job = state.nodes, state.jobs[attempt.job]
    anchor = nodes.leaf[(kept or lost)[0]]
    domain = domain_at(anchor, part.level)
    until_us = needed_until(state, attempt.ends_us)
    free = {
        number
        for number in nodes.of_pool(part.pool)
        if nodes.is_free(number) and nodes.until_us[number] >= until_us and nodes.lock[number] == ""
        if number not in job.avoid and number not in used and domain_at(nodes.leaf[number], part.level) is domain
    }
    found: list[int] = []
    for gone in lost[: len(free)]:
        near = partial(_distance, nodes, gone)
        found.append(min(free, key=lambda number: (not nodes.spare[number], near(number), number)))
        free.remove(found[-1])
    return found


def _distance(nodes: NodeTable, one: int, other: int) -> int:
    """Give the smallest level at which two nodes of a pool share a domain."""
    return next(
        level for level in (RACK, SPINE, SITE) if nodes.leaf[one].above[level] is nodes.leaf[other].above[level]
    )


def _shrunk(state: State, job: JobState, attempt: AttemptState, failed: set[int]) -> tuple[Rung, Parts] | None:
    """Find the best rung of an elastic job that its surviving nodes suffice for."""
    if not job.claim.elastic:
        return None
    left: dict[int, list[int]] = {}
    for number in attempt.all_nodes():
        if number not in failed:
            left.setdefault(state.nodes.pool[number], []).append(number)
    for rung in job.rungs:
        fits = all(len(left.get(part.pool, ())) >= part.nodes for part in rung.parts)
        if fits and len(rung.parts) == len(rung.chips) and rung.nodes < attempt.rung.nodes:
            parts = tuple(tuple(left[part.pool][: part.nodes]) for part in rung.parts)
            leaf, rows = state.nodes.leaf, zip(rung.parts, parts, strict=True)
            if all(together(leaf, numbers, part.level) for part, numbers in rows):
                return rung, parts
    return None


def drop_node(work: Work, number: int, reason: str) -> None:
    """Have a gone node's attempt recover, or its leave be closed."""
    state = work.state
    attempt = state.attempts.get(state.nodes.holder[number])
    if attempt is not None and not state.nodes.leaving[number]:
        gather(work, attempt)
        if state.nodes.retired[number]:
            leave(work, attempt, [number], reason, work.now_us)
