"""Who may lose nodes to a job: attempts of queues that hold more than they own, or of lower priority in its own queue.

Reads the state and changes nothing. Must not know which of them are cheapest.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from argosy.contracts.policy import FLOORS, SECOND_US, TIMED_ORDERS
from argosy.control.board import EVERY_LEVEL
from argosy.control.domains import Domain, together
from argosy.control.nodes import FOREVER
from argosy.control.place import end_of, needed_until, usable_late
from argosy.control.quota import Amounts
from argosy.control.rungs import Rung
from argosy.control.state import AttemptState, JobState, State

SHRINK, BORROWED, LOWER = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """One attempt and what it would lose. stage: SHRINK, BORROWED or LOWER. smaller: what it runs at after shrinking.

    nodes: those it would leave; chips: how many chips that is; kind: of the pool that is short. milder: the other ways
    to shrink it, those that take least first.
    """

    attempt: AttemptState
    stage: int
    priority: int
    queue: int
    kind: int
    nodes: tuple[int, ...]
    chips: int
    smaller: Rung | None = None
    milder: tuple["Victim", ...] = ()
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
        self._known: dict[tuple[str, int, int, int], tuple[Victim, ...]] = {}
        self._held: dict[int, dict[int, list[str]]] = {}
        self._lowest: dict[tuple[int, int], int] = {}
        self._borrowed: dict[tuple[int, int, int], list[Victim]] = {}
        self._tables: dict[tuple[int, int, int, int, int], Table] = {}
        self._starts: dict[int, list[tuple[int, int]]] = {}
        self._due: dict[tuple[int, int], frozenset[int]] = {}

    def forget(self) -> None:
        """Note that somebody was hit."""
        self._borrowed, self._tables = {}, {}

    def of(self, job: JobState, need: Amounts, depth: int, pool: int, level: int) -> Table:
        """Tell whom a job may take nodes of a pool from, by domains of a level, always in the same order."""
        state = self.state
        queue = state.queue_of(job)
        lower = self._lower(job, need, queue, pool)
        key = (queue, depth, pool, level, self.due_us(job, pool))
        if lower or job.avoid:
            return _table(state, [*self._over(queue, depth, pool), *lower], pool, level, self.useless(job, pool))
        if key not in self._tables:
            self._tables[key] = _table(state, self._over(queue, depth, pool), pool, level, self.useless(job, pool))
        return self._tables[key]

    def least(self, job: JobState, rung: Rung, need: Amounts, depth: int) -> tuple[int, int, int]:
        """Give the least part (pool, level, nodes) that fails too where this rung of one part can't be freed."""
        part = rung.parts[0]
        found = self.of(job, need, depth, part.pool, part.level)
        if not found:
            return part.pool, EVERY_LEVEL, 1
        with self.state.nodes.lent(usable_late(self.state, job, rung)):
            most = max(domain.free + most for domain, (most, _) in found.items())
        return part.pool, part.level, min(part.nodes, most + 1)

    def due_us(self, job: JobState, pool: int) -> int:
        """Give the start of the last maintenance in a pool that comes too soon for a job; -1 where none does."""
        if pool not in self._starts:
            until_us, members = self.state.nodes.until_us, self.state.nodes.of_pool(pool)
            self._starts[pool] = sorted((until_us[number], number) for number in members if until_us[number] < FOREVER)
        place = bisect_left(self._starts[pool], (needed_until(self.state, end_of(self.state, job)), -1))
        return self._starts[pool][place - 1][0] if place else -1

    def useless(self, job: JobState, pool: int) -> frozenset[int]:
        """List the nodes of a pool that are no use to a job: those it avoids, or that are due for maintenance."""
        key = pool, self.due_us(job, pool)
        if key not in self._due:
            self._due[key] = frozenset(number for start_us, number in self._starts[pool] if start_us <= key[1])
        return self._due[key].union(job.avoid) if job.avoid else self._due[key]

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
        found: list[Victim] = []
        for name in names:
            attempt = self.state.attempts.get(name)
            if attempt is None:
                continue
            other = self.state.jobs[attempt.job]
            # What started in this very pass is left alone.
            if attempt.began_seq < self.state.seq and _may_be_hit(self.state, other):
                key = (attempt.id, attempt.generation, stage, kind)
                if key not in self._known:
                    self._known[key] = _ways(self.state, attempt, other, stage, kind)
                found += self._known[key]
        return found

    def _by_queue(self, pool: int) -> dict[int, list[str]]:
        """Give the attempts that were on a pool's nodes when first asked, by queue."""
        if pool not in self._held:
            self._held[pool] = {queue: list(names) for queue, names in self.state.holding[pool].items()}
        return self._held[pool]


def _table(state: State, victims: list[Victim], pool: int, level: int, useless: frozenset[int]) -> Table:
    """Sort what could be freed by domain, without nodes that are of no use to the job."""
    rows: dict[Domain, list[tuple[Victim, int]]] = {}
    most: dict[Domain, int] = {}
    ready, leaf = state.nodes.ready, state.nodes.leaf
    for victim in victims:
        shunned = []
        if useless and not useless.isdisjoint(victim.nodes):
            shunned = [leaf[n].above[level] for n in victim.nodes if n in useless and ready[n]]
        for domain, count in victim.nodes_by(state, pool, level).items():
            if count > (lost := shunned.count(domain)):
                found = rows.setdefault(domain, [])
                # The ways to take from one attempt follow one another, each frees what those before it do.
                before = found[-1][1] if found and found[-1][0].attempt is victim.attempt else 0
                most[domain] = most.get(domain, 0) + count - lost - before
                found.append((victim, count - lost))
    return {domain: (most[domain], found) for domain, found in rows.items()}


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
    below_mine, below_theirs = len(mine), len(theirs)
    while below_mine and below_theirs and mine[below_mine - 1] == theirs[below_theirs - 1]:
        below_mine, below_theirs = below_mine - 1, below_theirs - 1
    return depth < below_mine and below_theirs > 0 and state.quota.over(theirs[below_theirs - 1], kind)


def _ways(state: State, attempt: AttemptState, job: JobState, stage: int, kind: int) -> tuple[Victim, ...]:
    """List the ways to take nodes from an attempt: as many as it can do without, or all of them."""
    queue, priority = state.queue_of(job), job.claim.priority
    shrunk: list[Victim] = []
    for rung in _smaller(state, attempt, job):
        nodes = attempt.all_nodes()[rung.nodes :]
        chips = len(nodes) * state.nodes.pools[rung.parts[0].pool].chips_per_node
        shrunk.append(Victim(attempt, SHRINK, priority, queue, kind, nodes, chips, rung, tuple(shrunk)))
    if job.claim.kind == "serve" and FLOORS in state.policy.reclaim.never_from:
        return tuple(shrunk[-1:])
    chips = sum(count for _, count in attempt.rung.chips)
    whole = Victim(attempt, stage, priority, queue, kind, attempt.all_nodes(), chips, milder=tuple(shrunk))
    return (*shrunk[-1:], whole)


def _smaller(state: State, attempt: AttemptState, job: JobState) -> list[Rung]:
    """List the rungs that an elastic job can shrink to in place, the largest first: one part of the same pool."""
    if not job.claim.elastic or len(attempt.rung.parts) != 1:
        return []
    now, numbers = attempt.rung.parts[0], attempt.all_nodes()
    found: dict[int, Rung] = {}
    for rung in sorted(job.rungs, key=lambda rung: (-rung.nodes, rung.option, rung.size)):
        part = rung.parts[0]
        fits = len(rung.parts) == 1 and part.pool == now.pool and part.nodes < now.nodes
        if fits and together(state.nodes.leaf, numbers[: part.nodes], part.level):
            found.setdefault(part.nodes, rung)
    return list(found.values())
