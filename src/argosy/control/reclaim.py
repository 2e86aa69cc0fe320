"""Taking lent chips back for a job that owns them: which domain costs least, whom to shrink or evict there, the cap.

Only a job within its queue's (or an ancestor's) guarantee reclaims, and only from queues that hold more than they own,
or from lower priority in its own queue. What is freed is pinned to it. One plan in one place a job, then a cooldown.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from argosy.control.attempts import regroup, spend, stop
from argosy.control.change import JobReclaimed, Reserved, Unreserved
from argosy.control.domains import Domain, domain_at, pick
from argosy.control.place import outranks
from argosy.control.rungs import Rung, RungPart
from argosy.control.state import BLOCKED, Blocked, JobState, State
from argosy.control.victims import Candidates, Table, Victim
from argosy.control.work import Work


@dataclass(slots=True)
class Plan:
    """Whom to take nodes from. freed: chips that stop, also outside the chosen domains. nodes: what the job gets.

    loosed: nodes that other jobs had held; said: what became of it, to be noted of the job.
    """

    taken: dict[str, Victim] = field(default_factory=dict)
    freed: int = 0
    nodes: tuple[int, ...] = ()
    loosed: tuple[int, ...] = ()
    said: Blocked = BLOCKED

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
    need, plan = state.amounts_of(rung), Plan()
    with state.nodes.lent((), job.avoid) if job.avoid else nullcontext():
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
        found = _cheapest(state, domain, part.nodes, rows, plan)
        if found is not None:
            cost = sum(victim.chips for victim in found if victim.attempt.id not in plan.taken)
            if best is None or (cost, domain.number) < best[:2]:
                best = (cost, domain.number, found)
    if best is None:
        return _take_free(state, part, plan)
    for victim in best[2]:
        if victim.attempt.id not in plan.taken:
            plan.taken[victim.attempt.id] = victim
            plan.freed += victim.chips
    domain = state.nodes.trees[part.pool].at(part.level)[best[1]]
    gone = [n for v in plan.taken.values() for n in v.nodes if domain_at(state.nodes.leaf[n], part.level) is domain]
    gone = [n for n in gone if _can_pin(state, job, n) and n not in plan.nodes][: part.nodes]
    spare_room = [n for n in pick(domain, domain.free) if n not in plan.nodes]
    plan.nodes = (*plan.nodes, *gone, *spare_room[: part.nodes - len(gone)])
    return True


def _take_free(state: State, part: RungPart, plan: Plan) -> bool:
    """Take a part that needs nobody to leave from free nodes."""
    with state.nodes.lent((), plan.nodes) if plan.nodes else nullcontext():
        domain = state.nodes.trees[part.pool].find(part.nodes, part.level)
        if domain is not None:
            plan.nodes = (*plan.nodes, *pick(domain, part.nodes))
    return domain is not None


def _cheapest(
    state: State, domain: Domain, wanted: int, rows: list[tuple[Victim, int]], plan: Plan
) -> list[Victim] | None:
    """Choose victims in one domain, cheapest first, then drop those that turn out not to be needed."""
    have = domain.free - sum(_inside(state, n, domain) for n in plan.nodes)
    if have + sum(count for _, count in rows) < wanted:
        return None
    # Neither order is best for every mix of sizes: many small ones may overshoot less than one large one, or more.
    ways = [_greedy(state, sorted(rows, key=partial(_price, sign)), wanted - have, plan) for sign in (1, -1)]
    found = [way for way in ways if way is not None]
    return min(found, key=lambda way: sum(victim.chips for victim in way), default=None)


def _greedy(state: State, rows: list[tuple[Victim, int]], missing: int, plan: Plan) -> list[Victim] | None:
    """Take victims in order until enough is freed, then drop those that are not needed, the largest first."""
    left: dict[tuple[int, int], int] = {}
    chosen: list[tuple[Victim, int]] = []
    for victim, count in rows:
        if missing <= 0:
            break
        if victim.attempt.id in plan.taken or _still_over(state, victim, left):
            _count_out(victim, left)
            chosen.append((victim, count))
            missing -= count
    if missing > 0:
        return None
    for victim, count in sorted(chosen, key=lambda row: -row[0].chips):
        if missing + count <= 0:
            chosen.remove((victim, count))
            missing += count
    return [victim for victim, _ in chosen]


def _inside(state: State, number: int, domain: Domain) -> bool:
    return state.nodes.placeable[number] and domain_at(state.nodes.leaf[number], domain.level) is domain


def _price(sign: int, row: tuple[Victim, int]) -> tuple[int, int, int, int, int, str]:
    """Shrink first, then borrowed, then lower priority of its own; then low priority, little waste, small, young."""
    victim, count = row
    waste = victim.chips * 1000 // max(1, count)
    size = sign * victim.chips
    return victim.stage, victim.priority, waste, size, -victim.attempt.began_us, victim.attempt.id


def _still_over(state: State, victim: Victim, left: dict[tuple[int, int], int]) -> bool:
    """Say whether a victim's queue would still hold more than it owns, after those chosen before it."""
    if victim.stage == 2:
        return True
    row = state.quota.rows[victim.queue]
    return row.held[victim.kind] - left.get((victim.queue, victim.kind), 0) > row.own[victim.kind]


def _count_out(victim: Victim, left: dict[tuple[int, int], int]) -> None:
    key = (victim.queue, victim.kind)
    left[key] = left.get(key, 0) + victim.chips


def _can_pin(state: State, job: JobState, number: int) -> bool:
    """Say whether a node may be kept for a job once it is free."""
    lock = state.nodes.lock[number]
    if number in job.avoid:
        return False
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
