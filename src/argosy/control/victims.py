"""Who may lose nodes to a job: attempts of queues that hold more than they own, or of lower priority in its own queue.

Reads the state and changes nothing. Must not know which of them are cheapest.
"""

from dataclasses import dataclass, field

from argosy.contracts.policy import SECOND_US, TIMED_ORDERS
from argosy.control.board import EVERY_LEVEL
from argosy.control.domains import Domain
from argosy.control.nodes import FOREVER
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


Table = dict[Domain, tuple[int, list[tuple[Victim, int]]]]
"""For each domain, how many nodes could be freed there, and by whom how many."""


class Candidates:
    """Whom jobs may take nodes from, for one pass; worked out once for each queue, pool and level until it changes."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._known: dict[tuple[str, int, int, int], Victim | None] = {}
        self._held: dict[int, dict[int, list[str]]] = {}
        self._lowest: dict[tuple[int, int], int] = {}
        self._borrowed: dict[tuple[int, int, int], list[Victim]] = {}
        self._tables: dict[tuple[int, int, int, int], Table] = {}

    def forget(self) -> None:
        """Note that somebody was hit."""
        self._borrowed, self._tables = {}, {}

    def of(self, job: JobState, need: Amounts, depth: int, pool: int, level: int) -> Table:
        """Tell whom a job may take nodes of a pool from, by domains of a level, always in the same order."""
        state = self.state
        queue = state.queue_of(job)
        lower = self._lower(job, need, queue, pool)
        key = (queue, depth, pool, level)
        if lower or job.avoid:
            return _table(state, [*self._over(queue, depth, pool), *lower], pool, level, job.avoid)
        if key not in self._tables:
            self._tables[key] = _table(state, self._over(queue, depth, pool), pool, level)
        return self._tables[key]

    def least(self, job: JobState, need: Amounts, depth: int, part: tuple[int, int, int]) -> tuple[int, int, int]:
        """Give the least part (pool, level, nodes) that fails too where this one can't be freed."""
        pool, level, nodes = part
        found = self.of(job, need, depth, pool, level)
        if not found:
            return pool, EVERY_LEVEL, 1
        return pool, level, min(nodes, max(domain.free + most for domain, (most, _) in found.items()) + 1)

    def _over(self, queue: int, depth: int, pool: int) -> list[Victim]:
        """List the attempts of queues that hold more than they own, of what this queue is entitled to."""
        state, key = self.state, (queue, depth, pool)
        if key not in self._borrowed:
            kind = state.kind_of_pool(pool)
            names = [
                name
                for place, held in self._by_queue(pool).items()
                if place != queue and state.quota.over(place, kind) and _is_owed(state, queue, place, depth, kind)
                for name in held
            ]
            self._borrowed[key] = self._victims(sorted(names), kind, BORROWED)
        return self._borrowed[key]

    def _lower(self, job: JobState, need: Amounts, queue: int, pool: int) -> list[Victim]:
        """List the attempts of lower priority in the job's own queue, if within the guarantee it may replace some.

        In a queue that takes turns they give way by rounds.
        """
        state = self.state
        if state.policy.queues[queue].order in TIMED_ORDERS or job.claim.priority <= self._lowest_of(queue, pool):
            return []
        found = [state.attempts[name] for name in self._by_queue(pool).get(queue, ()) if name in state.attempts]
        lower = [attempt for attempt in found if state.jobs[attempt.job].claim.priority < job.claim.priority]
        if not lower:
            return []
        spared: dict[int, int] = {}
        for kind, amount in (row for attempt in lower for row in attempt.amounts):
            spared[kind] = spared.get(kind, 0) + amount
        if state.quota.depth(queue, need, tuple(spared.items())) > 0:
            return []
        return self._victims(sorted(attempt.id for attempt in lower), state.kind_of_pool(pool), LOWER)

    def _lowest_of(self, queue: int, pool: int) -> int:
        """Give the lowest priority of a queue's attempts on a pool when first asked; later ones are spared."""
        if (queue, pool) not in self._lowest:
            attempts, jobs = self.state.attempts, self.state.jobs
            held = [attempts[name] for name in self._by_queue(pool).get(queue, ()) if name in attempts]
            priorities = [jobs[attempt.job].claim.priority for attempt in held]
            self._lowest[queue, pool] = min(priorities, default=FOREVER)
        return self._lowest[queue, pool]

    def _victims(self, names: list[str], kind: int, stage: int) -> list[Victim]:
        found = []
        for name in names:
            attempt = self.state.attempts.get(name)
            if attempt is None:
                continue
            other = self.state.jobs[attempt.job]
            # What started in this very pass is left alone.
            if attempt.began_seq < self.state.seq and _may_be_hit(self.state, other):
                key = (attempt.id, attempt.generation, stage, kind)
                if key not in self._known:
                    self._known[key] = _way(self.state, attempt, other, stage, kind)
                victim = self._known[key]
                if victim is not None:
                    found.append(victim)
        return found

    def _by_queue(self, pool: int) -> dict[int, list[str]]:
        """Give the attempts that were on a pool's nodes when first asked, by queue."""
        if pool not in self._held:
            self._held[pool] = {queue: list(names) for queue, names in self.state.holding[pool].items()}
        return self._held[pool]


def _table(state: State, victims: list[Victim], pool: int, level: int, avoid: tuple[int, ...] = ()) -> Table:
    """Sort what could be freed by domain, without nodes that are of no use to the job."""
    rows: dict[Domain, list[tuple[Victim, int]]] = {}
    ready, leaf = state.nodes.ready, state.nodes.leaf
    for victim in victims:
        shunned = [leaf[n].above[level] for n in avoid if ready[n] and n in victim.nodes]
        for domain, count in victim.nodes_by(state, pool, level).items():
            if count > (useless := shunned.count(domain)):
                rows.setdefault(domain, []).append((victim, count - useless))
    return {domain: (sum(count for _, count in found), found) for domain, found in rows.items()}


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
    """Say whether a queue's wish is within a guarantee that another, which is over its own, needs more than it owns."""
    rows = state.quota.rows
    mine, theirs = rows[queue].path, rows[other].path
    common = next((place for place in mine if place in theirs), None)
    below_mine = mine if common is None else mine[: mine.index(common)]
    below_theirs = theirs if common is None else theirs[: theirs.index(common)]
    if depth >= len(below_mine) or not below_theirs:
        return False
    return state.quota.over(below_theirs[-1], kind)


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
