"""Who may lose nodes to a job: attempts of queues that hold more than they own, or of lower priority in its own queue.

Reads the state and changes nothing. Must not know which of them are cheapest.
"""

from dataclasses import dataclass, field

from argosy.contracts.policy import SECOND_US
from argosy.control.domains import Domain
from argosy.control.quota import Amounts
from argosy.control.rungs import Rung
from argosy.control.state import AttemptState, JobState, State

SHRINK, BORROWED, LOWER = range(3)
FLOORS = "serving floors"


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """One attempt and what it would lose. stage: SHRINK, BORROWED or LOWER. smaller: what it runs at after shrinking.

    nodes: those it would leave; chips: how many chips that is; kind: of the pool that is short.
    """

    attempt: AttemptState
    stage: int
    priority: int
    queue: int
    kind: int
    nodes: tuple[int, ...]
    chips: int
    smaller: Rung | None = None
    spread: dict[tuple[int, int], dict[Domain, int]] = field(default_factory=dict)

    def nodes_by(self, state: State, pool: int, level: int) -> dict[Domain, int]:
        """Count the nodes of a pool that it would free by domain of a level; those that are not ready free nothing."""
        found = self.spread.get((pool, level))
        if found is None:
            found = self.spread[pool, level] = {}
            ready, leaf, pools = state.nodes.ready, state.nodes.leaf, state.nodes.pool
            for number in self.nodes:
                if ready[number] and pools[number] == pool:
                    domain = leaf[number].above[level]
                    found[domain] = found.get(domain, 0) + 1
        return found


class Candidates:
    """Whom jobs may take nodes from, for one pass; what an attempt would lose is worked out once."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._known: dict[tuple[str, int, int, int], Victim | None] = {}
        self._lowest: dict[int, dict[int, int]] = {}
        self._owed: dict[tuple[int, int, int], bool] = {}

    def of(self, job: JobState, need: Amounts, pool: int) -> list[Victim]:
        """List whom a job may take nodes of a pool from, always in the same order."""
        state = self.state
        queue, kind = state.queue_of(job), state.kind_of_pool(pool)
        depth = state.quota.depth(queue, need)
        if self._nobody(job, queue, depth, pool, kind):
            return []
        owed: dict[int, bool] = {}
        found: list[Victim] = []
        for name in sorted(state.holding[pool]):
            attempt = state.attempts[name]
            other = state.jobs[attempt.job]
            if other.id == job.id or not _may_be_hit(state, other):
                continue
            place = state.queue_of(other)
            if place not in owed:
                owed[place] = place != queue and _is_owed(state, queue, place, depth, kind)
            stage = BORROWED if owed[place] else -1
            if place == queue and other.claim.priority < job.claim.priority:
                stage = LOWER if state.quota.depth(queue, need, attempt.amounts) == 0 else -1
            victim = self._victim(attempt, other, stage, kind) if stage >= 0 else None
            if victim is not None:
                found.append(victim)
        return found

    def _nobody(self, job: JobState, queue: int, depth: int, pool: int, kind: int) -> bool:
        """Say at little cost that there is surely nobody: by the queues that hold nodes of a pool, and priorities."""
        lowest = self._lowest.get(pool)
        if lowest is None:
            lowest = self._lowest[pool] = {}
            for name in self.state.holding[pool]:
                other = self.state.jobs[self.state.attempts[name].job]
                place = self.state.queue_of(other)
                lowest[place] = min(lowest.get(place, other.claim.priority), other.claim.priority)
        if lowest.get(queue, job.claim.priority) < job.claim.priority:
            return False
        key = (queue, depth, pool)
        if key not in self._owed:
            # Use beyond what is owned only shrinks in a pass, so what is owed by nobody stays so.
            self._owed[key] = any(
                place != queue and _is_owed(self.state, queue, place, depth, kind) for place in lowest
            )
        return not self._owed[key]

    def _victim(self, attempt: AttemptState, job: JobState, stage: int, kind: int) -> Victim | None:
        key = (attempt.id, attempt.generation, stage, kind)
        if key not in self._known:
            self._known[key] = _way(self.state, attempt, job, stage, kind)
        return self._known[key]


def _may_be_hit(state: State, job: JobState) -> bool:
    """Say whether a job may lose nodes: the protected, recent or frequent victims and those on the move may not."""
    rules = state.policy.reclaim
    return (
        job.state in ("preparing", "running")
        and job.claim.preemptible
        and state.now_us - job.evicted_us >= rules.cooldown_s * SECOND_US
        and job.evictions < rules.evictions_at_most
        and job.claim.queue not in rules.never_from
        and job.spent.get("preemption", 0) < state.policy.retries.preemption
    )


def _is_owed(state: State, queue: int, other: int, depth: int, kind: int) -> bool:
    """Say whether a queue's wish is within a guarantee that another queue's use goes beyond its own for."""
    rows = state.quota.rows
    mine, theirs = rows[queue].path, rows[other].path
    common = next((place for place in mine if place in theirs), None)
    below_mine = mine if common is None else mine[: mine.index(common)]
    below_theirs = theirs if common is None else theirs[: theirs.index(common)]
    if depth >= len(below_mine) or not below_theirs:
        return False
    return state.quota.over(other, kind) and state.quota.over(below_theirs[-1], kind)


def _way(state: State, attempt: AttemptState, job: JobState, stage: int, kind: int) -> Victim | None:
    """Give the way to take nodes from an attempt: by shrinking where it can, else all of them."""
    queue, priority = state.queue_of(job), job.claim.priority
    smaller = _smaller(attempt, job)
    if smaller is not None:
        part = smaller.parts[0]
        nodes = attempt.all_nodes()[part.nodes :]
        chips = len(nodes) * state.nodes.pools[part.pool].chips_per_node
        return Victim(attempt, SHRINK, priority, queue, kind, nodes, chips, smaller)
    if job.claim.kind == "serve" and FLOORS in state.policy.reclaim.never_from:
        return None
    chips = sum(count for _, count in attempt.rung.chips)
    return Victim(attempt, stage, priority, queue, kind, attempt.all_nodes(), chips)


def _smaller(attempt: AttemptState, job: JobState) -> Rung | None:
    """Find the smallest rung that an elastic job can shrink to in place: one part of the same pool."""
    if not job.claim.elastic or len(attempt.rung.parts) != 1:
        return None
    now = attempt.rung.parts[0]
    fits = [
        rung
        for rung in job.rungs
        if len(rung.parts) == 1 and rung.parts[0].pool == now.pool and rung.parts[0].nodes < now.nodes
    ]
    return min(fits, key=lambda rung: (rung.parts[0].nodes, rung.option, rung.size), default=None)
