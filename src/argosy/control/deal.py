"""What a queue that takes turns has to deal: its jobs, the ways to run each, the nodes and chips it may use, as arrays.

Reads the state and changes nothing. Must not know which ways are chosen, nor how that is carried out.
"""

from dataclasses import dataclass, field

import numpy as np

from argosy.contracts.policy import SECOND_US, Queue
from argosy.control.choose import Ways
from argosy.control.quota import UNLIMITED
from argosy.control.rungs import Rung
from argosy.control.state import JobState, State
from argosy.control.work import Work

GIVES_WAY = {"round": "others have their turn", "moved": "other chips suit it better"}
"""Why a job is stopped at the end of a round; only the first counts as an exchange."""

GUESS_S = 600.0
"""What a job of unknown length is reckoned to need at least."""


@dataclass(slots=True)
class Deal:
    """One queue's deal.

    players: its jobs, in order of age. fixed: those of them that stay as they are; kept: those that move to better
    chips at most. late: free nodes whose maintenance is far enough off. room: nodes by pool, then chips by the quota
    kinds that have a limit, which are kinds.
    """

    work: Work
    number: int
    queue: Queue
    players: list[JobState] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    late: list[int] = field(default_factory=list)
    room: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)

    @property
    def state(self) -> State:
        """The state."""
        return self.work.state


Way = tuple[JobState, Rung, bool]
"""A job, a rung it could run at, and whether it does so now."""

Dealt = tuple[JobState, Rung, tuple[tuple[int, ...], ...]]
"""A job, the rung it was dealt, and the nodes of each part."""


def own_jobs(state: State, queues: set[int]) -> dict[int, list[JobState]]:
    """List the jobs of some queues that run or wait, in order of age."""
    found: dict[int, list[JobState]] = {queue: [] for queue in queues}
    for attempt in state.attempts.values():
        job = state.jobs[attempt.job]
        found.get(state.queue_of(job), []).append(job)
    for group, rows in state.waiting.items():
        if group[0] in queues:
            found[group[0]] += (state.jobs[member[2]] for member in rows)
    return {queue: sorted(jobs, key=lambda job: job.number) for queue, jobs in found.items()}


def make_way(jobs: list[JobState]) -> bool:
    """Say whether some still make way for the last deal."""
    return any(job.state == "stopping" and job.reason in GIVES_WAY for job in jobs)


def pinned_chips(state: State, queue: int) -> dict[int, int]:
    """Sum up by kind the chips that are pinned to waiting jobs of a queue, which will hold them soon."""
    found: dict[int, int] = {}
    for reservation in state.reservations.values():
        if reservation.pinned and state.queue_of(state.jobs[reservation.job]) == queue:
            for kind, amount in state.amounts_of(reservation.rung):
                found[kind] = found.get(kind, 0) + amount
    return found


def gather(deal: Deal, jobs: list[JobState], over: bool) -> bool:
    """List who takes part; False if nobody could start or move."""
    state, most = deal.state, deal.queue.round.exchanges_at_most
    for job in jobs:
        if job.state == "waiting" and job.rungs and job.not_before_us <= state.now_us:
            deal.players.append(job)
        elif job.state in ("running", "preparing") and job.rungs:
            deal.players.append(job)
            if not over or job.state != "running" or not job.claim.preemptible or job.claim.kind == "serve":
                deal.fixed.add(job.id)
            elif most is not None and job.exchanges >= most:
                (deal.fixed if deal.queue.order == "fifo" else deal.kept).add(job.id)
    if len(deal.players) == len(deal.fixed):
        return False
    deal.late = _late(deal)
    return over or bool(deal.late) or any(_finds_room(state, job) for job in deal.players if not job.attempt)


def _finds_room(state: State, job: JobState) -> bool:
    """Say whether as many nodes are free as some rung of a job takes, wherever they are."""
    trees = state.nodes.trees
    return any(all(part.nodes <= trees[part.pool].top.free for part in rung.parts) for rung in job.rungs)


def _late(deal: Deal) -> list[int]:
    """List the free nodes that are kept from others for maintenance alone, which begins when the next round is over."""
    nodes = deal.state.nodes
    return sorted(n for kept in nodes.withheld for n in kept if not nodes.lock[n] and outlasts(deal, n))


def outlasts(deal: Deal, number: int) -> bool:
    """Say whether no maintenance of a node begins before the next round is over."""
    round_us = deal.state.us(deal.queue.round.every_s)
    return deal.state.nodes.until_us[number] >= deal.state.now_us + round_us


def waited_for(state: State) -> dict[int, set[int]]:
    """List for each pool the queues whose jobs wait for it."""
    found: dict[int, set[int]] = {}
    for queue, shape in {(queue, shape) for queue, shape, _, _ in state.waiting if shape >= 0}:
        for parts in state.shapes[shape].parts:
            for pool, _, _ in parts:
                found.setdefault(pool, set()).add(queue)
    return found


def count_room(deal: Deal, contested: set[int]) -> list[float]:
    """Count the nodes of each pool that can be dealt or stay with who has them, and the chips that quotas allow.

    contested: pools that jobs of other queues wait for.
    """
    state, quota = deal.state, deal.state.quota
    contested_kinds = {state.kind_of_pool(pool) for pool in contested}
    nodes = [float(tree.top.free) for tree in state.nodes.trees]
    for number in deal.late:
        nodes[state.nodes.pool[number]] += 1
    for job in deal.players:
        if job.attempt:
            for part in state.attempts[job.attempt].rung.parts:
                nodes[part.pool] += part.nodes
    row, pinned = quota.rows[deal.number], pinned_chips(state, deal.number)
    last = len(quota.kinds) - 1
    for kind in range(len(quota.kinds)):
        allowed = row.held[kind] + quota.room(deal.number, kind)
        if kind in contested_kinds or (kind == last and contested and row.own[last]):
            allowed = min(allowed, max(row.entitled[kind], row.held[kind]))
        allowed = max(row.held[kind], allowed - pinned.get(kind, 0))
        if allowed < UNLIMITED // 2:
            deal.kinds.append(kind)
            nodes.append(float(allowed))
    return nodes


def ways_of(deal: Deal, job: JobState) -> list[Way]:
    """List the ways to run a job: what it does now, and each rung that has a rate."""
    current = deal.state.attempts[job.attempt].rung if job.attempt else None
    ways: list[Way] = [(job, current, True)] if current is not None else []
    least = current.rate if current is not None and job.id in deal.kept else 0.0
    return ways + [(job, rung, False) for rung in job.rungs if rung != current and rung.rate > least]


def arrays_of(deal: Deal, jobs: list[JobState], table: list[Way]) -> Ways:
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
        kept=np.array([job.id in deal.kept for job, _, _ in table]),
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
