"""Letting elastic jobs grow into what is left after everyone who waits has been looked at.

A pool that a waiting job could use soon is left alone. Must not evict, nor move what runs.
"""

from argosy.control.attempts import Parts, regroup
from argosy.control.domains import Domain, domain_at, pick
from argosy.control.place import late_nodes, needed_until
from argosy.control.quota import Amounts
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import AttemptState, JobState, State
from argosy.control.work import Work

GROWS_MAX = 64


def grow(work: Work, wanted: set[int]) -> None:
    """Grow running elastic jobs outside of wanted pools, at most GROWS_MAX in a pass, each at most once a cooldown."""
    state = work.state
    free = [pool for pool, tree in enumerate(state.nodes.trees) if tree.top.free or state.nodes.withheld[pool]]
    idle = set(free) - wanted
    grown, tired = 0, False
    cooldown_us = state.us(state.policy.reclaim.cooldown_s)
    for name in _growable(state, idle):
        attempt = state.attempts[name]
        job = state.jobs[attempt.job]
        if any(pool in idle for rung in job.rungs for pool, _ in rung.chips) and attempt.rung != job.rungs[0]:
            if state.now_us - max(attempt.began_us, attempt.regrouped_us) < cooldown_us or grown >= GROWS_MAX:
                tired = True
            else:
                grown += _grow_one(work, job, attempt, idle)
    if tired and not any(purpose == "pass" for _, purpose, _ in state.timers):
        work.later(max(1.0, state.policy.reclaim.cooldown_s), "pass")


def _growable(state: State, idle: set[int]) -> list[str]:
    """List the attempts of running elastic jobs, if there is anything to grow into."""
    elastic = [a.id for a in state.attempts.values() if state.jobs[a.job].claim.elastic] if idle else []
    return sorted(name for name in elastic if state.jobs[state.attempts[name].job].state == "running")


def _grow_one(work: Work, job: JobState, attempt: AttemptState, idle: set[int]) -> int:
    """Move a job to the best rung that contains what it has; 1 when it grew."""
    state = work.state
    queue, until_us = state.queue_of(job), needed_until(state, attempt.ends_us)
    for rung in job.rungs:
        if rung == attempt.rung:
            break
        need = _difference(state, rung, attempt)
        if need is None or state.quota.excess(queue, need, state.quota.depth(queue, need)):
            continue
        with state.nodes.lent([n for pool, _ in rung.chips for n in late_nodes(state, pool, until_us)], job.avoid):
            parts = _grown(state, attempt, rung, idle)
        if parts is not None:
            regroup(work, attempt, rung, parts, "grown")
            return 1
    return 0


def _difference(state: State, rung: Rung, attempt: AttemptState) -> Amounts | None:
    """Give what a rung takes more than an attempt has; None where it takes less of anything."""
    has = dict(attempt.amounts)
    more = tuple((kind, amount - has.pop(kind, 0)) for kind, amount in state.amounts_of(rung))
    if has or min(amount for _, amount in more) < 0 or more[-1][1] <= 0:
        return None
    return tuple((kind, amount) for kind, amount in more if amount)


def _grown(state: State, attempt: AttemptState, rung: Rung, idle: set[int]) -> Parts | None:
    """Find the further nodes of every part, near those it has."""
    if len(rung.parts) != len(rung.chips):
        return None
    parts = []
    for part in rung.parts:
        own = tuple(number for number in attempt.all_nodes() if state.nodes.pool[number] == part.pool)
        extra = _extra(state, part, own) if len(own) < part.nodes else []
        if len(own) + len(extra) != part.nodes or (extra and part.pool not in idle):
            return None
        parts.append((*own, *extra))
    return tuple(parts)


def _extra(state: State, part: RungPart, own: tuple[int, ...]) -> list[int]:
    """Choose free nodes in the one domain that the nodes of a part share; none when they share no domain."""
    missing = part.nodes - len(own)
    domain: Domain | None
    if own:
        shared = {id(found): found for number in own if (found := domain_at(state.nodes.leaf[number], part.level))}
        domain = next(iter(shared.values())) if len(shared) == 1 else None
    else:
        domain = state.nodes.trees[part.pool].find(missing, part.level)
    return pick(domain, missing) if domain is not None and domain.free >= missing else []
