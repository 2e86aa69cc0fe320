"""Queues whose jobs take turns: at the end of a round the queue's chips are dealt anew among running and waiting jobs.

Who runs how is `control.choose`; here its choice is carried out: who stays, who gives way, and on which nodes the next
start. Between rounds what falls free is dealt to those that wait. Deals the queue's own nodes and free ones; of those
that other queues wait for only as many as it owns, until the pass had its turn. Must not take from other queues.
"""

from dataclasses import dataclass, field

import numpy as np

from argosy.contracts.policy import SECOND_US, TIMED_ORDERS, Queue
from argosy.control.attempts import start, stop
from argosy.control.change import Reserved, RoundBegan
from argosy.control.choose import Ways, choose
from argosy.control.domains import add, pick, remove
from argosy.control.quota import UNLIMITED
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State
from argosy.control.work import Work

GUESS_S = 600.0
"""What a job of unknown length is reckoned to need at least."""


@dataclass(slots=True)
class Deal:
    """One queue's deal. players: its jobs, in order of age; fixed: those of them that stay as they are.

    free: nodes it may deal to others than those that have them now. room: nodes by pool, then chips by the quota
    kinds that have a limit, which are kinds.
    """

    work: Work
    number: int
    queue: Queue
    players: list[JobState] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)
    room: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)

    @property
    def state(self) -> State:
        """The state."""
        return self.work.state


Way = tuple[JobState, Rung, bool]
"""A job, a rung it could run at, and whether it does so now."""


def deal_rounds(work: Work, leftovers: bool = False) -> None:
    """Deal the chips of every queue that takes turns. leftovers: other queues had their choice of what is free."""
    for number, queue in enumerate(work.state.policy.queues):
        if queue.order in TIMED_ORDERS and queue.state != "draining":
            deal = Deal(work, number, queue)
            if _gather(deal, _begin(deal)):
                deal.room = _room(deal, leftovers)
                _carry_out(deal, _choose(deal))


def _begin(deal: Deal) -> bool:
    """Say whether a round is over, so that running jobs may give way; then the next begins."""
    state, name = deal.state, deal.queue.name
    if state.now_us < state.rounds.get(name, 0) or not any(_mine(deal)):
        return False
    ends_us = state.now_us + state.us(deal.queue.round.every_s)
    deal.work.change(RoundBegan(queue=name, ends_us=ends_us))
    deal.work.at(ends_us, "round", name)
    return True


def _mine(deal: Deal) -> list[JobState]:
    """List the jobs of a queue that run or wait, in order of age."""
    state = deal.state
    waiting = [member[2] for group, rows in state.waiting.items() if group[0] == deal.number for member in rows]
    running = [attempt.job for attempt in state.attempts.values()]
    jobs = [state.jobs[name] for name in (*waiting, *running)]
    return sorted((job for job in jobs if job.claim.queue == deal.queue.name), key=lambda job: job.number)


def _gather(deal: Deal, over: bool) -> bool:
    """List who takes part; False if nobody could start or move, or some still make way for the last deal."""
    state, most = deal.state, deal.queue.round.exchanges_at_most
    jobs = _mine(deal)
    if any(job.state == "stopping" and job.reason == "round" for job in jobs):
        return False
    for job in jobs:
        if job.state == "waiting" and job.rungs and job.not_before_us <= state.now_us:
            deal.players.append(job)
        elif job.state in ("running", "preparing") and job.rungs:
            deal.players.append(job)
            tired = most is not None and job.exchanges >= most
            if not over or tired or job.state != "running" or not job.claim.preemptible or job.claim.kind == "serve":
                deal.fixed.add(job.id)
    return len(deal.players) > len(deal.fixed)


def _room(deal: Deal, leftovers: bool) -> list[float]:
    """Count the nodes of each pool that can be dealt or stay with who has them, and the chips that quotas allow."""
    state, quota = deal.state, deal.state.quota
    others = {shape for queue, shape, _, _ in state.waiting if queue != deal.number and shape >= 0}
    contested = {pool for shape in others for parts in state.shapes[shape].parts for pool, _, _ in parts}
    contested_kinds = {state.kind_of_pool(pool) for pool in contested}
    nodes = [float(tree.top.free) for tree in state.nodes.trees]
    for job in deal.players:
        if job.attempt:
            for part in state.attempts[job.attempt].rung.parts:
                nodes[part.pool] += part.nodes
    row = quota.rows[deal.number]
    for kind in range(len(quota.kinds)):
        allowed = row.held[kind] + min(
            quota.rows[place].most[kind] - quota.rows[place].held[kind] for place in row.path
        )
        if kind in contested_kinds and not leftovers:
            allowed = min(allowed, max(row.own[kind], row.held[kind]))
        if allowed < UNLIMITED // 2:
            deal.kinds.append(kind)
            nodes.append(float(allowed))
    return nodes


def _choose(deal: Deal) -> list[Way]:
    """Let the queue's order choose, those of higher priority first."""
    chosen: list[Way] = []
    for priority in sorted({job.claim.priority for job in deal.players}, reverse=True):
        jobs = [job for job in deal.players if job.claim.priority == priority]
        table = [way for job in jobs for way in _ways_of(deal, job)]
        if table:
            ways = _arrays(deal, jobs, table)
            picked = choose(deal.queue.order, ways)
            deal.room = (np.array(deal.room) - ways.takes[picked].sum(axis=0)).tolist()
            chosen += [table[index] for index in picked]
    return chosen


def _ways_of(deal: Deal, job: JobState) -> list[Way]:
    """List the ways to run a job: what it does now, and each rung that has a rate."""
    current = deal.state.attempts[job.attempt].rung if job.attempt else None
    ways: list[Way] = [(job, current, True)] if current is not None else []
    return ways + [(job, rung, False) for rung in job.rungs if rung != current and rung.rate > 0]


def _arrays(deal: Deal, jobs: list[JobState], table: list[Way]) -> Ways:
    """Write the ways as arrays."""
    state, rules = deal.state, deal.queue.round
    index = {job.id: number for number, job in enumerate(jobs)}
    best = [max(rung.rate for rung in job.rungs) or 1.0 for job in jobs]
    left = [_left(job, rate, state.now_us) for job, rate in zip(jobs, best, strict=True)]
    owner = np.array([index[job.id] for job, _, _ in table], np.int64)
    rates = np.array([rung.rate for _, rung, _ in table])
    takes = np.zeros((len(table), len(deal.room)))
    for row, (_, rung, _) in enumerate(table):
        for part in rung.parts:
            takes[row, part.pool] += part.nodes
        amounts = dict(state.amounts_of(rung))
        for place, kind in enumerate(deal.kinds, len(state.nodes.pools)):
            takes[row, place] = amounts.get(kind, 0)
    ages = np.array([(state.now_us - job.submitted_us) / SECOND_US for job in jobs])
    ran = np.array([job.done_by(state.now_us) / rate for job, rate in zip(jobs, best, strict=True)])
    return Ways(
        job=owner,
        takes=takes,
        speed=rates / np.array(best)[owner],
        pace=rates / np.array(left)[owner],
        stays=np.array([stays for _, _, stays in table]),
        fixed=np.array([stays and job.id in deal.fixed for job, _, stays in table]),
        left_s=np.array(left) / np.array(best),
        had=(ran + rules.every_s) / (ages + 2 * rules.every_s),
        room=np.array(deal.room),
        round_s=rules.every_s,
        start_s=rules.start_s,
    )


def _left(job: JobState, best_rate: float, now_us: int) -> float:
    """Give the tokens a job still has to train, by the rates of the rungs it ran at.

    Where it does not say how many it trains in all: by its time limit; without one it is reckoned to need as long again
    as it has run, GUESS_S at least.
    """
    done = job.done_by(now_us)
    if job.claim.work_tokens is not None:
        return max(float(job.claim.work_tokens - done), best_rate)
    least = GUESS_S * best_rate
    if job.claim.time_limit_us is not None:
        return max(job.claim.time_limit_us / SECOND_US * best_rate - done, least)
    return max(float(done), least)


def _carry_out(deal: Deal, chosen: list[Way]) -> None:
    """Start who starts, stop who gives way, and hold the nodes that fall free for those they were dealt to."""
    work, state = deal.work, deal.state
    staying = {job.id for job, _, stays in chosen if stays} | deal.fixed
    loose = [state.attempts[job.attempt] for job in deal.players if job.attempt and job.id not in staying]
    starting = sorted((way for way in chosen if not way[2]), key=lambda way: (-way[1].nodes, way[0].number))
    dealt = _find_nodes(state, [number for attempt in loose for number in attempt.all_nodes()], starting)
    taken = {number for _, _, parts in dealt for part in parts for number in part}
    moving = {job.id for job, _, _ in dealt if job.attempt}
    for job, rung, parts in dealt:
        if not job.attempt:
            _give(deal, job, rung, parts)
    for attempt in loose:
        if attempt.job in moving or taken.intersection(attempt.all_nodes()):
            text = f"its turn in queue {deal.queue.name} is over"
            stop(work, state.jobs[attempt.job], "round", text, state.us(deal.queue.notice_s))


def _find_nodes(
    state: State, lent: list[int], ways: list[Way]
) -> list[tuple[JobState, Rung, tuple[tuple[int, ...], ...]]]:
    """Find nodes for each way among those that are free and those that are lent; ways that find none are left out."""
    nodes, dealt, taken = state.nodes, [], list[int]()
    usable = [n for n in lent if nodes.ready[n] and not (nodes.placeable[n] or nodes.lock[n] or nodes.spare[n])]
    with nodes.lent(usable):
        for job, rung, _ in ways:
            shunned = [number for number in job.avoid if number in nodes.leaf[number].nodes]
            for number in shunned:
                remove(nodes.leaf[number], number)
            found: list[tuple[int, ...]] = []
            for part in rung.parts:
                domain = nodes.trees[part.pool].find(part.nodes, part.level)
                if domain is None:
                    break
                found.append(tuple(pick(domain, part.nodes)))
                for number in found[-1]:
                    remove(nodes.leaf[number], number)
            numbers = [number for part in found for number in part]
            if len(found) == len(rung.parts):
                dealt.append((job, rung, tuple(found)))
                taken += numbers
            else:
                shunned += numbers
            for number in shunned:
                add(nodes.leaf[number], number)
        for number in taken:
            add(nodes.leaf[number], number)
    return dealt


def _give(deal: Deal, job: JobState, rung: Rung, parts: tuple[tuple[int, ...], ...]) -> None:
    """Start a job if its nodes are free and its quota has room already, else hold them for it."""
    work, state = deal.work, deal.state
    numbers = tuple(number for part in parts for number in part)
    need = state.amounts_of(rung)
    within = state.quota.excess(deal.number, need, state.quota.depth(deal.number, need)) is None
    if within and all(state.nodes.placeable[number] for number in numbers):
        start(work, job, rung, parts)
        return
    from_us = state.now_us + state.us(deal.queue.notice_s)
    expires_us = from_us + state.us(state.policy.reclaim.pin_s)
    work.change(Reserved(job=job.id, rung=rung, nodes=numbers, from_us=from_us, pinned=True, expires_us=expires_us))
    work.at(expires_us, "pin", job.id)
