"""Handlers of events about policy and nodes."""

import math

import msgspec

from argosy.contracts.event import (
    FleetDescribed,
    IntentChanged,
    NodeSeen,
    NodesRetired,
    PolicyChanged,
    TermBegan,
    TrustChanged,
)
from argosy.contracts.fleet import Node
from argosy.contracts.request import INTENTS, OBSERVED, TRUSTS
from argosy.control.attempts import free
from argosy.control.change import (
    NodeAdded,
    NodeIntended,
    NodeObserved,
    NodeRetired,
    NodeTrusted,
    PolicySet,
    PoolAdded,
    TermSet,
)
from argosy.control.recover import LOST, drop_node, gather
from argosy.control.windows import turn_windows
from argosy.control.work import Work

UNPLACED = 2**31


def term_began(work: Work, event: TermBegan) -> None:
    """Follow a new leader."""
    work.change(TermSet(term=event.term))


def policy_changed(work: Work, event: PolicyChanged) -> None:
    """Take new rules, unless a queue that still has jobs is missing from them."""
    names = {queue.name for queue in event.policy.queues}
    parents = {queue.parent for queue in event.policy.queues} - {""}
    used = {job.claim.queue for job in work.state.jobs.values() if job.state != "ended"}
    if used - names or used & parents:
        missing = ", ".join(sorted((used - names) | (used & parents)))
        work.refuse("policy", f"queues with jobs must stay, and stay leaves: {missing}")
        return
    work.change(PolicySet(policy=event.policy))
    turn_windows(work)
    work.want_pass()


def fleet_described(work: Work, event: FleetDescribed) -> None:
    """Add what is new, in order of place and name, so that the order of input does not matter."""
    nodes = work.state.nodes
    for pool in sorted(event.pools, key=lambda item: item.name):
        if pool.name not in nodes.pool_number:
            work.change(PoolAdded(pool=pool))
    for node in sorted(event.nodes, key=_place):
        if node.name in nodes.number:
            continue
        if node.chip_class not in nodes.pool_number:
            work.refuse(node.name, f"pool {node.chip_class} is unknown")
            continue
        work.change(NodeAdded(node=node))
    turn_windows(work)
    work.want_pass()


def nodes_retired(work: Work, event: NodesRetired) -> None:
    """Strike nodes out; what runs on them recovers elsewhere."""
    for name in event.nodes:
        number = _known(work, name)
        if number is not None:
            work.change(NodeRetired(node=number))
            drop_node(work, number, "retired")
    work.want_pass()


def node_seen(work: Work, event: NodeSeen) -> None:
    """Follow what is observed; a node that is down starts its attempt's recovery, and its lease runs out in time."""
    state = work.state
    number = state.nodes.number.get(event.node)
    if number is None or not state.nodes.holder[number]:
        number = _known(work, event.node)
    # What a retired node still runs has to be followed to its end.
    if number is None:
        return
    if event.observed not in OBSERVED:
        work.refuse(event.node, f"observed must be one of {', '.join(OBSERVED)}, got {event.observed}")
        return
    nodes = state.nodes
    lease_us = nodes.lease_us[number]
    if event.observed == "down" and nodes.observed[number] != "down":
        lease_us = max(work.now_us + state.us(state.policy.lease_s), state.leased_us)
        work.at(lease_us, "lease", event.node)
    work.change(NodeObserved(node=number, observed=event.observed, lease_us=lease_us))
    _follow(work, event, number)
    work.want_pass()


def _follow(work: Work, event: NodeSeen, number: int) -> None:
    """Answer for the attempt on a node that was seen otherwise: it lost its ranks there, or is still to leave."""
    nodes = work.state.nodes
    attempt = work.state.attempts.get(nodes.holder[number])
    if nodes.leaving[number]:
        if event.fenced:
            free(work, (number,))
        elif attempt is not None and event.observed == "up":
            work.stop(attempt, (number,), "left", max(work.now_us, nodes.leave_by_us[number]))
    elif attempt is not None and (event.fenced or event.observed == "down"):
        gather(work, attempt, "nodes rebooted" if event.fenced else LOST)


def intent_changed(work: Work, event: IntentChanged) -> None:
    """Open, cordon or drain nodes; a deadline empties them then."""
    if event.intent not in INTENTS:
        work.refuse("fleet", f"intent must be one of {', '.join(INTENTS)}, got {event.intent}")
        return
    for name in event.nodes:
        number = _known(work, name)
        if number is not None:
            change = NodeIntended(node=number, intent=event.intent)
            if event.intent == "draining" and event.deadline_us is not None:
                change = msgspec.structs.replace(change, empty_by_us=max(event.deadline_us, work.now_us))
                work.at(change.empty_by_us, "drain")
            work.change(change)
    work.want_pass()


def trust_changed(work: Work, event: TrustChanged) -> None:
    """Take a node into quarantine or out of it; what runs on it goes on until a fault of its own is found."""
    number = _known(work, event.node)
    if number is None:
        return
    if event.trust not in TRUSTS:
        work.refuse(event.node, f"trust must be one of {', '.join(TRUSTS)}, got {event.trust}")
    elif event.trust == "quarantined":
        quarantine(work, (number,), event.evidence)
    else:
        work.change(NodeTrusted(node=number, trust="ok"))
    work.want_pass()


def quarantine(work: Work, numbers: tuple[int, ...], evidence: str) -> tuple[int, ...]:
    """Quarantine nodes as far as the breaker lets detectors; give those that it let."""
    state = work.state
    breaker = state.policy.breaker
    alive = sum(not retired for retired in state.nodes.retired)
    allowed = max(1, math.floor(breaker.share * alive)) if breaker.share > 0 else 0
    since_us = work.now_us - state.us(breaker.window_s)
    done = []
    for number in numbers:
        if state.nodes.trust[number] == "quarantined":
            continue
        recent = sum(at_us > since_us for at_us in state.cordons)
        if recent >= allowed:
            before = f"{recent} node{'' if recent == 1 else 's'} before it within {breaker.window_s:g} s"
            text = f"not cordoned for {evidence or 'a failed check'}: {before}"
            work.tell(state.nodes.name[number], f"{text}, the breaker allows {allowed}; a person must look")
            continue
        work.change(NodeTrusted(node=number, trust="quarantined", counted=True))
        done.append(number)
    return tuple(done)


def _place(node: Node) -> tuple[str, int, int, int, str]:
    """Give the key nodes are numbered by: pool, spine, rack, name; what is unknown comes last."""
    spine = UNPLACED if node.spine is None else node.spine
    rack = UNPLACED if node.rack is None else node.rack
    return node.chip_class, spine, rack, len(node.name), node.name


def _known(work: Work, name: str) -> int | None:
    """Find a node by name, or refuse the event."""
    state = work.state
    number = state.nodes.number.get(name)
    if number is None or state.nodes.retired[number]:
        work.refuse(name, f"no node {name}")
        return None
    return number
