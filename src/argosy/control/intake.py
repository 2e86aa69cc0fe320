"""What the core takes in: events that can be logged and read back, with numbers that it can count with.

An event that fails here never happened: it is neither handled nor logged, and the state is as it was. Must not know
what an event is for: whether it is old, unknown or impossible now is for its handler to say.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from argosy.contracts import event as ev
from argosy.contracts.errors import BadInputError
from argosy.contracts.event import AnyEvent
from argosy.contracts.fleet import Node
from argosy.contracts.option import Option
from argosy.contracts.policy import EVERY_KIND, LEVELS_MAX, NORMALISED, ORDERS, QUEUE_STATES, Policy, Queue
from argosy.contracts.request import Claim, Pool

TIME_US_MAX = 10**17
"""The furthest time from 1970, and the longest limit: about 3,170 years."""
TIME_S_MAX = 10**9
COUNT_MAX = 10**8
PRIORITY_MAX = 10**6
TOKENS_MAX = 10**18
_DECODER = msgspec.json.Decoder(AnyEvent)


def take_in(event: AnyEvent) -> None:
    """Raise BadInputError for an event that the core cannot log or count with."""
    problem = next(CHECKS[type(event)](event), "") if type(event) in CHECKS else ""
    if not problem and not _survives(event):
        problem = "it does not survive the log: a text that is no Unicode, a number without an end or out of range"
    if problem:
        raise BadInputError(f"{type(event).__name__} is not taken in: {problem}; nothing was changed")


def _survives(event: AnyEvent) -> bool:
    """Say whether an event written to the log is read back as it was."""
    try:
        return bool(_DECODER.decode(msgspec.json.encode(event)) == event)
    except (msgspec.MsgspecError, OverflowError, UnicodeError, TypeError):
        return False


def _within(what: str, value: float | None, low: float, high: float) -> Iterator[str]:
    """Say so if a number is out of its range; NaN is out of every range."""
    if value is not None and not low <= value <= high:
        yield f"{what} must be from {low:g} to {high:g}, got {value:g}"


def _among(what: str, value: str, allowed: Iterable[str]) -> Iterator[str]:
    if value not in (known := tuple(allowed)):
        yield f"{what} must be one of {', '.join(known)}, got {value}"


def _claim(claim: Claim) -> Iterator[str]:
    yield from _among("kind", claim.kind, ("train", "run", "serve"))
    yield from _among("goal", claim.goal, ("fastest", "cheapest", "deadline"))
    yield from _within("priority", claim.priority, -PRIORITY_MAX, PRIORITY_MAX)
    yield from _within("time_limit_us", claim.time_limit_us, 1, TIME_US_MAX)
    yield from _within("deadline_us", claim.deadline_us, -TIME_US_MAX, TIME_US_MAX)
    yield from _within("work_tokens", claim.work_tokens, 0, TOKENS_MAX)
    yield from _within("user_retries", claim.user_retries, 0, COUNT_MAX)


def _options(options: tuple[Option, ...]) -> Iterator[str]:
    for option in options:
        yield from _within(f"{option.name}: valid_until_us", option.valid_until_us, -TIME_US_MAX, TIME_US_MAX)
        for size in option.ladder:
            yield from _within(f"{option.name}: tokens_per_second", size.tokens_per_second, 0, TOKENS_MAX)
            yield from _within(f"{option.name}: cost", size.cost_per_trillion_tokens, 0, TOKENS_MAX)
            for part in size.parts:
                yield from _within(f"{option.name}: nodes of {part.chip_class}", part.nodes, 1, COUNT_MAX)


def _submitted(event: ev.JobSubmitted) -> Iterator[str]:
    yield from _claim(event.claim)
    yield from _options(event.options)


def _fleet(event: ev.FleetDescribed) -> Iterator[str]:
    for pool in event.pools:
        yield from _pool(pool)
    for node in event.nodes:
        yield from _node(node)


def _pool(pool: Pool) -> Iterator[str]:
    if not pool.name or pool.kind in ("", NORMALISED, EVERY_KIND):
        yield f"pool {pool.name!r} of chips {pool.kind!r}: names must not be empty, {NORMALISED} or {EVERY_KIND}"
    yield from _within(f"{pool.name}: chips_per_node", pool.chips_per_node, 1, COUNT_MAX)


def _node(node: Node) -> Iterator[str]:
    if not node.name:
        yield "a node has no name"
    for what, number in (("rack", node.rack), ("spine", node.spine)):
        yield from _within(f"{node.name}: {what}", number, 0, COUNT_MAX)


def _policy(policy: Policy) -> Iterator[str]:
    yield from _tree(policy.queues)
    for queue in policy.queues:
        yield from _queue(queue)
    times = {
        "cooldown": policy.reclaim.cooldown_s,
        "pin": policy.reclaim.pin_s,
        "breaker's window": policy.breaker.window_s,
        "backoff": policy.retries.backoff_s,
        "longest backoff": policy.retries.backoff_at_most_s,
        "half_life": policy.half_life_s,
        "lease": policy.lease_s,
        "gather": policy.gather_s,
        "prepare": policy.prepare_s,
        "hold_after": policy.hold_after_s,
    }
    for what, time_s in times.items():
        yield from _within(what, time_s, 0, TIME_S_MAX)
    yield from _counts(policy)
    for window in policy.maintenance:
        yield from _within("a window's times", min(window.from_us, window.to_us), -TIME_US_MAX, TIME_US_MAX)
        yield from _within("a window's times", max(window.from_us, window.to_us), -TIME_US_MAX, TIME_US_MAX)


def _counts(policy: Policy) -> Iterator[str]:
    again = policy.retries
    for number in (again.user, again.infrastructure, again.preemption, policy.reservations, *policy.spares.values()):
        yield from _within("a count", number, 0, COUNT_MAX)
    yield from _within("reclaim's at_most", policy.reclaim.at_most, 0, COUNT_MAX)
    yield from _within("evictions_at_most", policy.reclaim.evictions_at_most, 0, COUNT_MAX)
    yield from _within("breaker's share", policy.breaker.share, 0, 1)
    for kind, worth in policy.worth.items():
        yield from _within(f"worth of {kind}", worth, 0.001, 1000)


def _tree(queues: tuple[Queue, ...]) -> Iterator[str]:
    """Find names that are missing or double, parents that don't exist, and circles."""
    parents = {queue.name: queue.parent for queue in queues}
    if not queues or "" in parents or len(parents) < len(queues):
        yield "there must be a queue, each with a name of its own"
    for name, parent in parents.items():
        if parent and parent not in parents:
            yield f"queue {name}: no parent {parent}"
    depth = {"": 0}
    for name in parents:
        path: dict[str, None] = {}
        place = name
        while place not in depth and place in parents and place not in path:
            path[place] = None
            place = parents[place]
        if place in path:
            yield f"queue {place} would be its own ancestor"
        above = depth.get(place, 0)
        depth |= {step: level for level, step in enumerate(reversed(path), above + 1)}
        yield from _within(f"levels of queues down to {name}", above + len(path), 0, LEVELS_MAX)


def _queue(queue: Queue) -> Iterator[str]:
    yield from _among(f"order of {queue.name}", queue.order, ORDERS)
    yield from _among(f"state of {queue.name}", queue.state, QUEUE_STATES)
    yield from _within(f"weight of {queue.name}", queue.weight, 0.001, 1e6)
    yield from _within(f"notice of {queue.name}", queue.notice_s, 0, TIME_S_MAX)
    yield from _within(f"round of {queue.name}", queue.round.every_s, 1, TIME_S_MAX)
    yield from _within(f"start cost of {queue.name}", queue.round.start_s, 0, TIME_S_MAX)
    yield from _within(f"exchanges of {queue.name}", queue.round.exchanges_at_most, 0, COUNT_MAX)
    if EVERY_KIND in queue.guarantee:
        yield f"guarantee of {queue.name}: chips are owned by kind, not {EVERY_KIND}"
    for limits in (queue.guarantee, queue.borrow, queue.lend):
        for kind, amount in limits.items():
            yield from _within(f"chips of {queue.name}, {kind}", amount, 0, COUNT_MAX)


def _intent(event: ev.IntentChanged) -> Iterator[str]:
    yield from _within("deadline_us", event.deadline_us, -TIME_US_MAX, TIME_US_MAX)


CHECKS: dict[type, Callable[[Any], Iterator[str]]] = {
    ev.PolicyChanged: lambda event: _policy(event.policy),
    ev.FleetDescribed: _fleet,
    ev.IntentChanged: _intent,
    ev.JobSubmitted: _submitted,
    ev.OptionsOffered: lambda event: _options(event.options),
}
