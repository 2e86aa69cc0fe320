"""Queues whose jobs take turns: at the end of a round the queue's chips are dealt anew among running and waiting jobs.

Who runs how is `control.choose`; here its choice is carried out: who stays, who gives way, and on which nodes the next
start. Between rounds what falls free is dealt to those that wait. Deals the queue's own nodes and free ones; of those
that other queues wait for only as many as it owns, until the pass had its turn. Must not take from other queues.
"""

from argosy.contracts.policy import TIMED_ORDERS
from argosy.control.attempts import start, stop
from argosy.control.change import Reserved, RoundBegan
from argosy.control.choose import choose
from argosy.control.deal import (
    GIVES_WAY,
    Deal,
    Dealt,
    Way,
    arrays_of,
    count_room,
    gather,
    make_way,
    outlasts,
    own_jobs,
    waited_for,
    ways_of,
)
from argosy.control.domains import add, pick, remove
from argosy.control.state import State
from argosy.control.work import Work


def deal_rounds(work: Work, leftovers: bool = False) -> None:
    """Deal the chips of every queue that takes turns. leftovers: other queues had their choice of what is free."""
    state = work.state
    timed = {
        number: queue
        for number, queue in enumerate(state.policy.queues)
        if queue.order in TIMED_ORDERS and queue.state != "draining"
    }
    if not timed:
        return
    jobs, waiters = own_jobs(state, set(timed)), waited_for(state)
    for number, queue in timed.items():
        contested = {pool for pool, queues in waiters.items() if queues - {number}}
        # Without others to wait for, the first deal left nothing to the second.
        if jobs[number] and (contested or not leftovers) and not make_way(jobs[number]):
            deal = Deal(work, number, queue)
            if gather(deal, jobs[number], _begin(deal)):
                deal.room = count_room(deal, set() if leftovers else contested)
                _carry_out(deal, _choose(deal))


def _begin(deal: Deal) -> bool:
    """Say whether a round is over, so that running jobs may give way; then the next begins."""
    state, name = deal.state, deal.queue.name
    if state.now_us < state.rounds.get(name, 0):
        return False
    ends_us = state.now_us + state.us(deal.queue.round.every_s)
    deal.work.change(RoundBegan(queue=name, ends_us=ends_us))
    deal.work.at(ends_us, "round", name)
    return True


def _choose(deal: Deal) -> list[Way]:
    """Let the queue's order choose, those of higher priority first."""
    chosen: list[Way] = []
    for priority in sorted({job.claim.priority for job in deal.players}, reverse=True):
        # Those that stay in any case keep their nodes from whoever goes first.
        jobs = [
            job
            for job in deal.players
            if job.claim.priority == priority or (job.claim.priority < priority and job.id in deal.fixed)
        ]
        table = [way for job in jobs for way in ways_of(deal, job)]
        if table:
            ways = arrays_of(deal, jobs, table)
            picked = choose(deal.queue.order, ways)
            own = [index for index in picked if table[index][0].claim.priority == priority]
            taken = ways.takes[own].sum(axis=0).tolist()
            deal.room = [room - used for room, used in zip(deal.room, taken, strict=True)]
            chosen += [table[index] for index in own]
    return chosen


def _carry_out(deal: Deal, chosen: list[Way]) -> None:
    """Start who starts, stop who gives way, and hold the nodes that fall free for those they were dealt to."""
    work, state = deal.work, deal.state
    staying = {job.id for job, _, stays in chosen if stays} | deal.fixed
    loose = [state.attempts[job.attempt] for job in deal.players if job.attempt and job.id not in staying]
    starting = sorted((way for way in chosen if not way[2]), key=lambda way: (-way[1].nodes, way[0].number))
    falling = [number for attempt in loose for number in attempt.all_nodes() if outlasts(deal, number)]
    dealt = _find_nodes(state, [*falling, *deal.late], starting)
    taken = {number for _, _, parts in dealt for part in parts for number in part}
    moving = {job.id for job, _, _ in dealt if job.attempt}
    given = [_give(deal, item) for item in dealt if not item[0].attempt]
    for attempt in loose:
        if attempt.job in moving or taken.intersection(attempt.all_nodes()) or not all(given):
            reason = "moved" if attempt.job in moving else "round"
            text = f"the round of queue {deal.queue.name} is over: {GIVES_WAY[reason]}"
            stop(work, state.jobs[attempt.job], reason, text, state.us(deal.queue.notice_s))


def _find_nodes(state: State, lent: list[int], ways: list[Way]) -> list[Dealt]:
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


def _give(deal: Deal, dealt: Dealt) -> bool:
    """Start a job if its nodes are free, else hold them for it; False if the quota is full of those that give way."""
    job, rung, parts = dealt
    work, state = deal.work, deal.state
    numbers = tuple(number for part in parts for number in part)
    need = state.amounts_of(rung)
    within = state.quota.excess(deal.number, need, state.quota.depth(deal.number, need)) is None
    if not all(map(state.nodes.is_free, numbers)):
        from_us = state.now_us + state.us(deal.queue.notice_s)
        expires_us = from_us + state.us(state.policy.reclaim.pin_s)
        work.change(Reserved(job=job.id, rung=rung, nodes=numbers, from_us=from_us, pinned=True, expires_us=expires_us))
        work.at(expires_us, "pin", job.id)
    elif within:
        start(work, job, rung, parts)
    return within
