"""Why a group of waiting jobs was not started: a code and the evidence, taken while the pass knows it.

Reads the state and changes nothing. A part's verdict compares what it needs with what is free, free but kept, ready,
and owned; a rung is as bad as its worst part; a group is as well off as its best rung.
"""

from collections import Counter
from dataclasses import dataclass

from argosy.contracts.pending import Need
from argosy.contracts.policy import TIMED_ORDERS
from argosy.control.domains import LEVELS
from argosy.control.place import end_of, needed_until, outranks
from argosy.control.quota import Excess
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import Blocked, JobState, State

# From nearest to a start to furthest.
SEVERITY = (
    "NEXT_PASS",
    "RECLAIMING",
    "FRAGMENTATION",
    "RESERVED",
    "MAINTENANCE",
    "SPARES",
    "RECLAIM_CAP",
    "NO_CAPACITY",
    "ORDER",
    "NO_QUOTA",
    "NODES_DOWN",
    "NEVER_FITS",
)
NEEDS_MAX = 6


@dataclass(slots=True)
class Judgement:
    """Why a job waits, by its rungs. rung: the one nearest to a start; needs: of all rungs, that one first."""

    code: str
    detail: str = ""
    rung: Rung | None = None
    needs: tuple[Need, ...] = ()
    excess: Excess | None = None


def early_code(state: State, job: JobState) -> str:
    """Say why a job is not even looked at, empty if it is."""
    if state.policy.queues[state.queue_of(job)].state == "draining":
        return "QUEUE_DRAINING"
    if job.not_before_us > state.now_us:
        return "BACKOFF"
    if not job.rungs:
        return "NO_OPTIONS"
    # Who runs in a queue that takes turns is for `control.rounds` to say; what it chose holds nodes already.
    timed = state.policy.queues[state.queue_of(job)].order in TIMED_ORDERS
    return "TURN" if timed and job.id not in state.reservations else ""


def judge(state: State, job: JobState, noted: Blocked) -> Judgement:
    """Say what keeps a job from starting, from what the pass noted and what nodes and quotas say now."""
    early = early_code(state, job)
    if early:
        return Judgement(early)
    queue, shape = state.queue_of(job), state.shapes[state.shape_of[job.id]]
    found = []
    for rung, need in zip(shape.rungs, shape.needs, strict=True):
        excess = state.quota.excess(queue, need, state.quota.depth(queue, need))
        code = "NO_QUOTA" if excess is not None else verdict(state, job, rung)
        if code not in ("NO_QUOTA", "NEVER_FITS") and any(pool in noted.closed for pool, _ in rung.chips):
            code = "ORDER"
        found.append(Judgement(code or "NEXT_PASS", rung=rung, excess=excess))
    best = min(found, key=lambda item: SEVERITY.index(item.code))
    shown = [best, *(item for item in found if item is not best)][:NEEDS_MAX]
    with state.nodes.lent((), job.avoid):
        best.needs = tuple(need for item in shown if item.rung for need in needs_of(state, item.rung))
    reservation = state.reservations.get(job.id)
    if reservation is not None and reservation.expires_us:
        best.code = "RECLAIMING"
    elif noted.code == "RECLAIM_CAP" and best.code not in ("NO_QUOTA", "ORDER", "NEVER_FITS", "NEXT_PASS"):
        best.code = noted.code
    # What was said of one code explains no other.
    best.detail = noted.detail if best.code == noted.code else ""
    return best


def shut_out(state: State, job: JobState) -> bool:
    """Tell whether a job's bad hosts leave no domain wide enough for any rung, were all else free."""
    return all(any(_widest_without(state, job, part) < part.nodes for part in rung.parts) for rung in job.rungs)


def _widest_without(state: State, job: JobState, part: RungPart) -> int:
    """Count the nodes that the largest domain of a part's level owns, those a job avoids left out."""
    shunned = [
        number for number in job.avoid if state.nodes.pool[number] == part.pool and not state.nodes.retired[number]
    ]
    lost = Counter(state.nodes.leaf[number].above[part.level].number for number in shunned)
    return max(
        (domain.owned - lost[domain.number] for domain in state.nodes.trees[part.pool].at(part.level)), default=0
    )


def worst(codes: list[str]) -> str:
    """Give the most severe of some codes."""
    return max(codes, key=SEVERITY.index)


def verdict(state: State, job: JobState, rung: Rung) -> str:
    """Say what keeps a rung from starting now, empty when nothing does."""
    with state.nodes.lent((), job.avoid):
        codes = [code for part in rung.parts if (code := _part(state, job, part))]
    return worst(codes) if codes else "NO_CAPACITY" if len(rung.parts) > len(rung.chips) else ""


def _part(state: State, job: JobState, part: RungPart) -> str:
    tree = state.nodes.trees[part.pool]
    if tree.find(part.nodes, part.level) is not None:
        return ""
    if tree.widest(part.level) < part.nodes:
        return "NEVER_FITS"
    if tree.top.free >= part.nodes:
        return "FRAGMENTATION"
    reserved, windows, spares = _kept(state, job, part.pool)
    for code, count in (("RESERVED", reserved), ("MAINTENANCE", windows), ("SPARES", spares)):
        if count and tree.top.free + count >= part.nodes:
            return code
    if tree.top.free + reserved + windows + spares >= part.nodes:
        return "RESERVED" if reserved else "MAINTENANCE"
    avoided = sum(state.nodes.pool[number] == part.pool and state.nodes.ready[number] for number in job.avoid)
    return "NODES_DOWN" if state.nodes.ready_count[part.pool] - avoided < part.nodes else "NO_CAPACITY"


def _kept(state: State, job: JobState, pool: int) -> tuple[int, int, int]:
    """Count free nodes of a pool that are reserved, due for maintenance, or spares."""
    nodes, needed_us = state.nodes, needed_until(state, end_of(state, job))
    counts = [0, 0, len(nodes.idle_spares[pool])]
    for number in nodes.withheld[pool]:
        if needed_us > nodes.until_us[number]:
            counts[1] += 1
        elif nodes.lock[number] not in ("", job.id) and not outranks(
            state, job, state.reservations[nodes.lock[number]]
        ):
            counts[0] += 1
    return counts[0], counts[1], counts[2]


def needs_of(state: State, rung: Rung) -> tuple[Need, ...]:
    """Show what each part of a rung needs, beside what is free."""
    found = []
    for part in rung.parts:
        tree = state.nodes.trees[part.pool]
        largest = tree.largest(part.level)
        found.append(
            Need(
                option=rung.option,
                pool=state.nodes.pools[part.pool].name,
                nodes=part.nodes,
                near=LEVELS[part.level],
                free=tree.top.free,
                largest=largest.free,
                domain=largest.name,
                owned=tree.top.owned,
            )
        )
    return tuple(found)
