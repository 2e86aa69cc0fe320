"""Taking lent chips back for a job that owns them: which domain costs least, whom to shrink or evict there, the cap.

Only a job within its queue's (or an ancestor's) guarantee reclaims, and only from queues that hold more than they own,
or from lower priority in its own queue. What is freed is pinned to it. One plan in one place a job, then a cooldown.
"""

from dataclasses import dataclass, field
from functools import partial

from argosy.control.attempts import regroup, spend, stop
from argosy.control.change import JobReclaimed, Reserved, Unreserved
from argosy.control.domains import Domain, domain_at, pick
from argosy.control.place import outranks, usable_late
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import BLOCKED, Blocked, JobState, State
from argosy.control.victims import LOWER, Candidates, Table, Victim
from argosy.control.work import Work


@dataclass(slots=True)
class Plan:
    """Whom to take nodes from. freed: chips that stop, also outside the chosen domains. nodes: what the job gets.

    loosed: nodes that other jobs had held; said: what became of it, to be noted of the job. useless: nodes that the job
    can't use; several: some parts lie in one pool, so that what one leaves to its holder another may need.
    """

    taken: dict[str, Victim] = field(default_factory=dict)
    freed: int = 0
    nodes: tuple[int, ...] = ()
    loosed: tuple[int, ...] = ()
    said: Blocked = BLOCKED
    useless: frozenset[int] = frozenset()
    several: bool = False

    def touched(self) -> tuple[int, ...]:
        """List the nodes that were given up or are held otherwise."""
        return (*self.nodes, *self.loosed, *(number for victim in self.taken.values() for number in victim.nodes))


def may_reclaim(state: State, job: JobState) -> bool:
    """Say whether reclaim is on, and the job's last one is long enough ago."""
    cooldown_us = state.us(state.policy.reclaim.cooldown_s)
    return state.policy.reclaim.at_most > 0 and state.now_us - job.reclaimed_us >= cooldown_us


def reclaim(work: Work, job: JobState, rung: Rung, depth: int, candidates: Candidates) -> Plan | None:
    """Free nodes for a rung: what was done, or RECLAIM_CAP with the figures; None where nothing can be freed.

    depth: how far up the rung is entitled.
    """
    plan = make_plan(work.state, job, rung, depth, candidates)
    if plan is None or not plan.taken or not len(plan.nodes) == len(set(plan.nodes)) == rung.nodes:
        return plan and Plan()
    asked = sum(count for _, count in rung.chips)
    if plan.freed > asked * work.state.policy.reclaim.at_most:
        plan.said = Blocked(
            "RECLAIM_CAP",
            f"{rung.option} needs {asked} chip{'' if asked == 1 else 's'}; freeing them would stop {plan.freed}",
        )
        return plan
    _carry_out(work, job, rung, plan)
    plan.said = Blocked(
        "RECLAIMING", f"{plan.freed} chip{'' if plan.freed == 1 else 's'} of {', '.join(sorted(plan.taken))}"
    )
    return plan


def make_plan(state: State, job: JobState, rung: Rung, depth: int, candidates: Candidates) -> Plan | None:
    """Find the cheapest way to free a rung, part by part; None where it can't be freed."""
    need = state.amounts_of(rung)
    useless = [candidates.useless(job, pool) for pool, _ in rung.chips]
    plan = Plan(useless=frozenset().union(*useless), several=len(rung.parts) > len(rung.chips))
    with state.nodes.lent(usable_late(state, job, rung), job.avoid):
        for part in rung.parts:
            open_to = candidates.of(job, need, depth, part.pool, part.level)
            if not _free_part(state, job, part, open_to, plan):
                return None
    return plan if _is_within(state, job, rung, depth, plan) else Plan()


def _is_within(state: State, job: JobState, rung: Rung, depth: int, plan: Plan) -> bool:
    """Say whether a queue that is not entitled as it is stays within what it owns once lower priorities gave way."""
    queue = state.queue_of(job)
    own = [victim for victim in plan.taken.values() if victim.queue == queue]
    if depth < len(state.quota.rows[queue].path) and not own:
        return True
    spared: dict[int, int] = {}
    for number in (number for victim in own for number in victim.nodes):
        pool = state.nodes.pool[number]
        spared[pool] = spared.get(pool, 0) + state.nodes.pools[pool].chips_per_node
    lost: dict[int, int] = {}
    for pool, count in spared.items():
        kind = state.kind_of_pool(pool)
        lost[kind] = lost.get(kind, 0) + count
    return state.quota.depth(queue, state.amounts_of(rung), state.quota.amounts(lost)) == 0


def _free_part(state: State, job: JobState, part: RungPart, open_to: Table, plan: Plan) -> bool:
    """Free one part in the domain where that stops fewest chips."""
    best: tuple[int, int, list[Victim]] | None = None
    chips = 0 if plan.taken else state.nodes.pools[part.pool].chips_per_node
    for domain, (most, rows) in sorted(open_to.items(), key=lambda row: (-row[0].free, row[0].number)):
        if domain.free + most < part.nodes:
            continue
        # At least the missing nodes stop.
        if best is not None and ((part.nodes - domain.free) * chips, domain.number) >= best[:2]:
            continue
        found = _cheapest(state, part, domain, rows, plan)
        if found is not None:
            cost = sum(victim.chips for victim in found if victim.attempt.id not in plan.taken)
            if best is None or (cost, domain.number) < best[:2]:
                best = (cost, domain.number, found)
    if best is None:
        return _take_free(state, part, plan)
    for victim in best[2]:
        before = plan.taken.get(victim.attempt.id)
        if before is None or before.chips < victim.chips:
            plan.taken[victim.attempt.id] = victim
            plan.freed += victim.chips - (before.chips if before is not None else 0)
    domain = state.nodes.trees[part.pool].at(part.level)[best[1]]
    gone = [n for v in plan.taken.values() for n in v.nodes if domain_at(state.nodes.leaf[n], part.level) is domain]
    gone = [n for n in gone if _can_pin(state, job, n) and n not in plan.nodes and n not in plan.useless][: part.nodes]
    spare_room = [n for n in pick(domain, domain.free) if n not in plan.nodes]
    plan.nodes = (*plan.nodes, *gone, *spare_room[: part.nodes - len(gone)])
    return True


def _take_free(state: State, part: RungPart, plan: Plan) -> bool:
    """Take a part that needs nobody to leave from free nodes."""
    with state.nodes.lent((), plan.nodes):
        domain = state.nodes.trees[part.pool].find(part.nodes, part.level)
        if domain is not None:
            plan.nodes = (*plan.nodes, *pick(domain, part.nodes))
    return domain is not None


def _cheapest(
    state: State, part: RungPart, domain: Domain, rows: list[tuple[Victim, int]], plan: Plan
) -> list[Victim] | None:
    """Choose victims in one domain, cheapest first, and take no more of them than turns out to be needed."""
    missing = part.nodes - domain.free + sum(_inside(state, n, domain) for n in plan.nodes)
    if sum(count for _, count in rows) < missing:
        return None
    ways = []
    # Neither order is best for every mix of sizes: many small ones may overshoot less than one large one, or more.
    alone = not rows or rows[0][0].attempt is rows[-1][0].attempt
    for sign in (1,) if alone else (1, -1):
        chosen = _greedy(state, sorted(rows, key=partial(_price, sign)), missing, plan)
        if chosen is not None:
            ways.append(_milder(state, part, domain, chosen, missing, plan))
    return min(ways, key=lambda way: sum(victim.chips for victim in way), default=None)


def _milder(
    state: State, part: RungPart, domain: Domain, chosen: list[tuple[Victim, int]], missing: int, plan: Plan
) -> list[Victim]:
    """Have elastic victims shrink by no more than is needed."""
    surplus, found = sum(count for _, count in chosen) - missing, []
    for victim, count in chosen:
        way = victim
        for milder in victim.milder if not plan.several else ():
            useless = sum(
                state.nodes.ready[n] and domain_at(state.nodes.leaf[n], part.level) is domain
                for n in plan.useless.intersection(milder.nodes)
            )
            fewer = count - milder.nodes_by(state, part.pool, part.level).get(domain, 0) + useless
            if fewer <= surplus:
                way, surplus = milder, surplus - fewer
                break
        found.append(way)
    return found


def _greedy(state: State, rows: list[tuple[Victim, int]], missing: int, plan: Plan) -> list[tuple[Victim, int]] | None:
    """Take victims in order until enough is freed, then drop those that are not needed, the largest first."""
    left: dict[tuple[int, int], int] = {}
    chosen: dict[str, tuple[Victim, int]] = {}
    for victim, count in rows:
        if missing <= 0:
            break
        name = victim.attempt.id
        before = chosen.get(name)
        # Who can't shrink by enough is stopped instead.
        more, chips = (count, victim.chips) if before is None else (count - before[1], victim.chips - before[0].chips)
        key = (victim.queue, victim.kind)
        spared = left.get(key, 0) - (victim.chips - chips)
        if more > 0 and (name in plan.taken or victim.stage == LOWER or state.quota.over(*key, spared)):
            left[key] = left.get(key, 0) + chips
            chosen[name] = victim, count
            missing -= more
    if missing > 0:
        return None
    for victim, count in sorted(chosen.values(), key=lambda row: -row[0].chips):
        if missing + count <= 0:
            del chosen[victim.attempt.id]
            missing += count
    return list(chosen.values())


def _inside(state: State, number: int, domain: Domain) -> bool:
    leaf = state.nodes.leaf[number]
    return number in leaf.nodes and domain_at(leaf, domain.level) is domain


def _price(sign: int, row: tuple[Victim, int]) -> tuple[int, int, int, int, int, str]:
    """Shrink first, then borrowed, then lower priority of its own; then low priority, little waste, small, young."""
    victim, count = row
    waste = victim.chips * 1000 // max(1, count)
    size = sign * victim.chips
    return victim.stage, victim.priority, waste, size, -victim.attempt.began_us, victim.attempt.id


def _can_pin(state: State, job: JobState, number: int) -> bool:
    """Say whether a node may be kept for a job once it is free."""
    lock = state.nodes.lock[number]
    return state.nodes.ready[number] and (lock in ("", job.id) or outranks(state, job, state.reservations[lock]))


def _carry_out(work: Work, job: JobState, rung: Rung, plan: Plan) -> None:
    """Shrink and evict, and pin what falls free."""
    state = work.state
    notice_us = state.us(state.policy.queues[state.queue_of(job)].notice_s)
    for lock in sorted({state.nodes.lock[n] for n in plan.nodes} - {"", job.id}):
        plan.loosed += state.reservations[lock].nodes
        work.change(Unreserved(job=lock))
    expires_us = state.now_us + notice_us + state.us(state.policy.reclaim.pin_s)
    from_us = state.now_us + notice_us
    work.change(Reserved(job=job.id, rung=rung, nodes=plan.nodes, from_us=from_us, pinned=True, expires_us=expires_us))
    work.change(JobReclaimed(job=job.id))
    work.at(expires_us, "pin", job.id)
    for victim in plan.taken.values():
        _take_from(work, job, victim, notice_us)


def _take_from(work: Work, job: JobState, victim: Victim, notice_us: int) -> None:
    """Shrink one victim in place, or stop it."""
    attempt = victim.attempt
    if victim.smaller is not None:
        gone = set(victim.nodes)
        kept = tuple(tuple(n for n in part if n not in gone) for part in attempt.nodes)
        regroup(work, attempt, victim.smaller, kept, f"shrunk for {job.id}")
        return
    loser = work.state.jobs[attempt.job]
    spend(work, loser, "preemption")
    stop(work, loser, "preempted", f"nodes reclaimed for {job.id} ({job.claim.name})", notice_us)
