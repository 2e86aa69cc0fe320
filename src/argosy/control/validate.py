"""Checking all cross-links of a state: every rule that must hold between steps, each broken one in words.

For tests, simulations and the service after a restart; reads only.
"""

from collections import Counter
from collections.abc import Iterator

from argosy.control.attempts import REQUEUED
from argosy.control.domains import LEVELS, PoolTree, together
from argosy.control.lanes import HOLDS, LIMIT, NUMBER, PRIORITY, QUEUE
from argosy.control.quota import QuotaTree
from argosy.control.state import AttemptState, State
from argosy.control.waiting import group_key

HOLDING = ("preparing", "running", "recovering", "stopping")


def problems(state: State) -> list[str]:
    """List every rule that a state breaks; empty means whole."""
    return [*_nodes(state), *_jobs(state), *_attempts(state), *_reservations(state), *_groups(state), *_quotas(state)]


def _nodes(state: State) -> Iterator[str]:
    """Nodes are held by one attempt that knows it, and are counted free where they are."""
    nodes = state.nodes
    for number in range(len(nodes)):
        name, holder = nodes.name[number], nodes.holder[number]
        if holder and not nodes.leaving[number] and not _has(state, holder, number):
            yield f"{name} is held by {holder}, which does not have it"
        if nodes.leaving[number] and not holder:
            yield f"{name} is left by nobody"
        if nodes.placeable[number] != (number in nodes.leaf[number].nodes):
            yield f"{name} is placeable {nodes.placeable[number]} but its rack disagrees"
        free = nodes.is_free(number)
        pool = nodes.pool[number]
        kept = number in nodes.withheld[pool] or number in nodes.idle_spares[pool]
        if free != (nodes.placeable[number] or kept):
            yield f"{name} is free {free} but neither placeable nor withheld"
        lock = nodes.lock[number]
        if lock and (lock not in state.reservations or number not in state.reservations[lock].nodes):
            yield f"{name} is kept for {lock}, which reserves it not"
    for pool, tree in enumerate(nodes.trees):
        yield from _tree(state, pool, tree)


def _has(state: State, attempt: str, number: int) -> bool:
    """Say whether an attempt counts a node among its own."""
    return attempt in state.attempts and number in state.attempts[attempt].all_nodes()


def _tree(state: State, pool: int, tree: PoolTree) -> Iterator[str]:
    """Compare the counts of a pool's domains with its nodes."""
    nodes = state.nodes
    own = [number for number in range(len(nodes)) if nodes.pool[number] == pool]
    counts = (sum(nodes.placeable[n] for n in own), sum(not nodes.retired[n] for n in own))
    if (tree.top.free, tree.top.owned) != counts:
        yield f"pool {tree.top.name} counts {tree.top.free} free of {tree.top.owned}, its nodes say {counts}"
    if nodes.ready_count[pool] != sum(nodes.ready[n] for n in own):
        yield f"pool {tree.top.name} counts {nodes.ready_count[pool]} ready"
    for level, domains in tree.levels.items():
        free = Counter(nodes.leaf[n].above[level].number for n in own if nodes.placeable[n])
        owned = Counter(nodes.leaf[n].above[level].number for n in own if not nodes.retired[n])
        for domain in domains:
            if (domain.free, domain.owned) != (free[domain.number], owned[domain.number]):
                yield f"{domain.name} of pool {tree.top.name} counts {domain.free} free of {domain.owned}"
            if domain.number not in domain.peers[domain.free] or not domain.peers[-1]:
                yield f"{domain.name} of pool {tree.top.name} is not listed among those with {domain.free} free"
    fresh: dict[tuple[str, int], set[int]] = {}
    for number in own:
        if nodes.is_free(number) and not nodes.spare[number] and not nodes.placeable[number]:
            fresh.setdefault((nodes.lock[number], nodes.lock_until[number]), set()).add(number)
    if fresh != {key: set(numbers) for key, numbers in nodes.held_for(pool).items()}:
        yield f"pool {tree.top.name}: for whom free nodes are held is not what its nodes say"


def _jobs(state: State) -> Iterator[str]:
    """Check that a job has an attempt, or a reservation, exactly while its state says so."""
    for job in state.jobs.values():
        if (job.attempt != "") != (job.state in HOLDING) or (job.attempt and job.attempt not in state.attempts):
            yield f"{job.id} is {job.state} with attempt {job.attempt or 'none'}"
        if (job.id in state.reservations) != (job.state == "reserved"):
            yield f"{job.id} is {job.state}, reservation {job.id in state.reservations}"
        if job.state == "stopping" and not job.reason:
            yield f"{job.id} stops for no reason"
        if job.state == "waiting" and job.reason and job.reason not in REQUEUED:
            yield f"{job.id} waits after {job.reason}"


def _attempts(state: State) -> Iterator[str]:
    """Gangs are whole: every part has as many nodes as its rung says, of its pool, in one domain, held by it."""
    for attempt in state.attempts.values():
        job = state.jobs.get(attempt.job)
        if job is None or job.attempt != attempt.id:
            yield f"{attempt.id} belongs to no job that knows it"
            continue
        yield from _gang(state, attempt, job.state)


def _gang(state: State, attempt: AttemptState, job_state: str) -> Iterator[str]:
    nodes = state.nodes
    for part, numbers in zip(attempt.rung.parts, attempt.nodes, strict=True):
        if len(set(numbers)) != part.nodes or any(nodes.pool[number] != part.pool for number in numbers):
            yield f"{attempt.id} has {nodes.shown(numbers)} for {part}"
        if not together(nodes.leaf, numbers, part.level):
            yield f"{attempt.id} has {nodes.shown(numbers)}, which share no {LEVELS[part.level]}"
    numbers = attempt.all_nodes()
    if len(set(numbers)) != len(numbers):
        yield f"{attempt.id} has a node twice"
    if job_state != "stopping":
        for number in numbers:
            if nodes.retired[number]:
                continue
            if nodes.holder[number] != attempt.id or nodes.leaving[number]:
                yield f"{attempt.id} counts on {nodes.name[number]}, held by {nodes.holder[number] or 'nobody'}"


def _reservations(state: State) -> Iterator[str]:
    """Check that what is held for a job is enough for its rung, and that no node is held for two."""
    taken = Counter(number for item in state.reservations.values() for number in item.nodes)
    for number, count in taken.items():
        if count > 1:
            yield f"{state.nodes.name[number]} is reserved {count} times"
    for item in state.reservations.values():
        if len(item.nodes) != item.rung.nodes:
            yield f"{item.job} reserves {len(item.nodes)} nodes for {item.rung.nodes}"


def _groups(state: State) -> Iterator[str]:
    """Every waiting job is in its group and nobody else is."""
    members = {member[2]: group for group, rows in state.waiting.items() for member in rows}
    waiting = {job.id: group_key(state, job) for job in state.jobs.values() if job.state in ("waiting", "reserved")}
    if members != waiting:
        odd = sorted(set(members.items()) ^ set(waiting.items()))
        yield f"groups of waiting jobs differ: {odd[:4]}"
    if set(state.lanes.row) != set(state.waiting):
        yield f"rows of groups differ: {sorted(set(state.lanes.row) ^ set(state.waiting))[:4]}"
        return
    for group, rows in state.waiting.items():
        row = state.lanes.table[state.lanes.row[group]].tolist()
        holds = group[3] in state.reservations
        if [*row[QUEUE : LIMIT + 1], row[HOLDS], row[PRIORITY], row[NUMBER]] != [*group[:3], holds, *rows[0][:2]]:
            yield f"the row of {group} says {row}"


def _quotas(state: State) -> Iterator[str]:
    """Use in the quota tree is that of the attempts, counted anew, and each is listed under its queue and pools."""
    holding: list[dict[int, set[str]]] = [{} for _ in state.nodes.pools]
    for attempt in state.attempts.values():
        for pool, _ in attempt.rung.chips:
            holding[pool].setdefault(state.queue_of(state.jobs[attempt.job]), set()).add(attempt.id)
    if holding != [{queue: names for queue, names in held.items() if names} for held in state.holding]:
        yield "attempts by pool and queue are listed wrongly"
    fresh = QuotaTree(state.policy, state.quota.kinds[:-1])
    for attempt in state.attempts.values():
        fresh.change(state.queue_of(state.jobs[attempt.job]), attempt.amounts, 1)
    for row, again in zip(state.quota.rows, fresh.rows, strict=True):
        if (row.held, row.claim) != (again.held, again.claim):
            yield f"queue {row.name} holds {again.held} and claims {again.claim}; counted {row.held}, {row.claim}"
    if state.quota.top_held != fresh.top_held:
        yield "the top of the queue tree is counted wrongly"
