"""Reading `queues.yaml`: its keys, what each allows, and how they become a `Policy`.

All problems of a file are reported at once with their places. It must not know which chips or sites the fleet has:
`check_policy` is told.
"""

import datetime
import difflib
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from argosy.contracts.documents import Document, Section, problems_error, read_document, validate
from argosy.contracts.errors import BadInputError
from argosy.contracts.fleet import Node
from argosy.contracts.policy import (
    EVERY_KIND,
    FLOORS,
    LEVELS_MAX,
    NORMALISED,
    SECOND_US,
    TIMED_ORDERS,
    Breaker,
    Order,
    Policy,
    Queue,
    Reclaim,
    Retries,
    Round,
    Window,
)
from argosy.contracts.units import Count, Switch, parse_count, parse_duration_s, parse_switch, show

COUNT_MAX = 10**8
Chips = Annotated[Count, Field(ge=0, le=COUNT_MAX)]
Times = Annotated[int, Field(ge=0, le=COUNT_MAX)]
SPAN_S_MAX = 10**9
Span = Annotated[float, BeforeValidator(parse_duration_s), Field(ge=0, le=SPAN_S_MAX)]
"""A duration of at most about 32 years; none is one too."""
Lasting = Annotated[Span, Field(ge=1)]
"""A duration without which nothing is left of what it is for."""
Place = Annotated[int, Field(ge=0, le=COUNT_MAX)]
WINDOWS_MAX = 1_000
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*x(?:\s+requested)?")
_BREAKER = re.compile(r"(\d+(?:\.\d+)?)\s*%(?:\s+of the fleet)?\s+in\s+(\S+)")


def _limits(value: Any) -> Any:
    """Read `yes`, `no`, `{limit: 128}` or `{limit: {h800-sxm: 64}}` as limits by kind; none means no limit."""
    if isinstance(value, bool) or (isinstance(value, str) and value in ("yes", "no", "on", "off")):
        return {} if parse_switch(value) else {EVERY_KIND: 0}
    if not isinstance(value, dict) or not set(value) <= {"limit", "notice"}:
        raise BadInputError(f"got {show(value)}; write yes, no, or {{limit: 128}}")
    limit = value.get("limit")
    if limit is None:
        return {}
    if isinstance(limit, dict):
        return {str(kind): _chips(amount) for kind, amount in limit.items()}
    return {EVERY_KIND: _chips(limit)}


def _chips(value: Any) -> int:
    count = parse_count(value)
    if count > COUNT_MAX:
        raise BadInputError(f"got {show(value)}; at most {COUNT_MAX:,} chips, or yes for no limit")
    return count


def _lending(value: Any) -> Any:
    """Read what a queue lends: limits as for borrowing, and the notice it gives when it takes chips back."""
    notice = value.get("notice") if isinstance(value, dict) else None
    return {"limits": _limits(value), "notice_s": 0.0 if notice is None else _span_s(notice, 0)}


def _span_s(value: Any, least_s: int) -> float:
    """Read a duration that stands within another value, where no field bounds it."""
    time_s = parse_duration_s(value)
    if not least_s <= time_s <= SPAN_S_MAX:
        raise BadInputError(f"got {show(value)}; write a time from {least_s} to {SPAN_S_MAX:,} s")
    return time_s


def _borrowing(value: Any) -> Any:
    if isinstance(value, dict) and "notice" in value:
        raise BadInputError("notice belongs to lend: it is the lender who gives it")
    return _limits(value)


def _times(value: Any) -> Any:
    """Read `1.5x requested`, `1.5x` or 1.5."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _TIMES.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadInputError(f"got {show(value)}; write how many times the requested chips, such as 1.5x requested")
    return float(found[1])


def _breaker(value: Any) -> Any:
    """Read `2 % of the fleet in 10m`."""
    found = _BREAKER.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:
        raise BadInputError(f"got {show(value)}; write a share and a time, such as 2 % of the fleet in 10m")
    return Breaker(share=float(found[1]) / 100, window_s=_span_s(found[2], 1))


def _moment(value: Any) -> Any:
    """Read a date and time in microseconds since 1970; without a zone it is UTC."""
    try:
        moment = datetime.datetime.fromisoformat(str(value))
    except ValueError as error:
        raise BadInputError(f"got {show(value)}; write a date and time such as 2026-12-05T02:00") from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return round(zoned.timestamp()) * SECOND_US


class RoundSection(Section):
    """The keys of a queue's `round:`."""

    OTHER_NAMES: ClassVar = {"lease": "every", "length": "every", "switch_cost": "start_cost"}

    every: Lasting = 360.0
    start_cost: Span = 0.0
    exchanges_at_most: Times | None = None


class QueueSection(Section):
    """The keys of one queue."""

    OTHER_NAMES: ClassVar = {"quota": "guarantee", "nominal": "guarantee", "cohort": "parent", "lending": "lend"}

    parent: str = ""
    guarantee: dict[str, Chips] = Field(default_factory=dict)
    borrow: Annotated[Any, BeforeValidator(_borrowing)] = Field(default_factory=dict)
    lend: Annotated[Any, BeforeValidator(_lending)] = Field(default_factory=lambda: {"limits": {}, "notice_s": 0.0})
    weight: Annotated[float, Field(ge=0.001, le=1e6)] = 1.0
    order: Order = "best_effort"
    round: RoundSection | None = None
    state: Literal["open", "closed", "draining"] = "open"


class ReclaimSection(Section):
    """The keys of `reclaim:`."""

    OTHER_NAMES: ClassVar = {"protect": "never_from", "cap": "at_most"}

    at_most: Annotated[float, BeforeValidator(_times), Field(ge=0, le=COUNT_MAX)] = 1.5
    never_from: tuple[str, ...] = (FLOORS,)
    cooldown: Span = 600.0
    evictions_at_most: Times = 5
    pin: Lasting = 900.0


class BreakersSection(Section):
    """The keys of `breakers:`."""

    cordon: Annotated[Any, BeforeValidator(_breaker)] = Breaker()


class WindowSection(Section):
    """The keys of one maintenance window."""

    OTHER_NAMES: ClassVar = {"start": "from", "end": "to", "until": "to"}

    site: str
    rack: Place | None = None
    spine: Place | None = None
    node: str = ""
    from_: Annotated[int, BeforeValidator(_moment), Field(alias="from")]
    to: Annotated[int, BeforeValidator(_moment)]


class RetriesSection(Section):
    """The keys of `retries:`."""

    user: Times = 0
    infrastructure: Times = 20
    preemption: Times = 100
    backoff: Span = 5.0
    backoff_at_most: Span = 600.0


class PolicyFile(Section):
    """The keys of `queues.yaml`."""

    OTHER_NAMES: ClassVar = {"breaker": "breakers", "windows": "maintenance", "queue": "queues"}

    queues: Annotated[dict[str, QueueSection], Field(min_length=1)]
    reclaim: ReclaimSection = ReclaimSection()
    spares: dict[str, Chips] = Field(default_factory=dict)
    breakers: BreakersSection = BreakersSection()
    maintenance: Annotated[tuple[WindowSection, ...], Field(max_length=WINDOWS_MAX)] = ()
    retries: RetriesSection = RetriesSection()
    worth: dict[str, Annotated[float, Field(ge=0.001, le=1000)]] = Field(default_factory=dict)
    half_life: Lasting = 86_400.0
    lease: Lasting = 30.0
    gather: Span = 2.0
    prepare: Lasting = 1_800.0
    reservations: Times = 4
    hold_after: Span = 900.0
    preemption: Switch = True


def read_policy(text: str, source: str) -> Policy:
    """Read a policy from the text of `queues.yaml`.

    Raises BadInputError with one line for each problem: its place, key, the value got and what is allowed.
    """
    document = read_document(text, source)
    content = validate(document, PolicyFile)
    problems = [
        *(problem for name in content.queues for problem in _queue_problems(name, content.queues, document)),
        *_tree_problems(content, document),
        *_window_problems(content, document),
        *_round_problems(content, document),
        *_reclaim_problems(content, document),
    ]
    if problems:
        raise problems_error(problems)
    return _to_policy(content)


def check_policy(
    policy: Policy, kinds: Collection[str], sites: Collection[str], nodes: Collection[Node]
) -> tuple[str, ...]:
    """Say which chip kinds, sites and parts of sites a policy names that a fleet does not have, with the nearest."""
    named = {kind for queue in policy.queues for kind in (*queue.guarantee, *queue.borrow, *queue.lend)}
    odd_kinds = sorted(((named - {NORMALISED, EVERY_KIND}) | set(policy.worth)) - set(kinds))
    odd_sites = sorted(({w.site for w in policy.maintenance} | set(policy.spares)) - set(sites))
    rows = [("chip", name, kinds) for name in odd_kinds] + [("site", name, sites) for name in odd_sites]
    return (*(_unknown(what, name, known) for what, name, known in rows), *_idle_windows(policy, nodes))


def _idle_windows(policy: Policy, nodes: Collection[Node]) -> Iterator[str]:
    """Say which windows are about no node of their site: jobs would run on through the maintenance that was meant."""
    by_site: dict[str, list[Node]] = {}
    for node in nodes:
        by_site.setdefault(node.site, []).append(node)
    for window in policy.maintenance:
        here = by_site.get(window.site, [])
        if here and not any(_is_about(window, node) for node in here):
            rows = {"rack": window.rack, "spine": window.spine, "node": window.node or None}
            narrowed = " ".join(f"{what} {value}" for what, value in rows.items() if value is not None)
            names = [node.name for node in here]
            hint = "" if window.node in names else _nearest(window.node, names)
            yield f"site {window.site} has no node in the maintenance of {narrowed}{hint}"


def _is_about(window: Window, node: Node) -> bool:
    return window.node in ("", node.name) and window.rack in (None, node.rack) and window.spine in (None, node.spine)


def _unknown(what: str, name: str, known: Collection[str]) -> str:
    hint = _nearest(name, sorted(known)) or f"; it has {', '.join(sorted(known))}"
    return f"the fleet has no {what} {name}{hint}"


def _queue_problems(name: str, queues: dict[str, QueueSection], document: Document) -> list[str]:
    """Find what is wrong with one queue's name and place in the tree."""
    queue, problems = queues[name], []
    usual = unicodedata.normalize("NFC", name.strip())
    if not usual or not name.isprintable():
        problems.append(document.problem(("queues", name), f"a queue needs a name, got {show(name)}"))
    elif usual != name:
        text = f"a name has no space around it, and no letter apart from its accents; write {usual}"
        problems.append(document.problem(("queues", name), text))
    above = _ancestors(queues, name)
    place = ("queues", name, "parent")
    if queue.parent and queue.parent not in queues:
        problems.append(document.problem(place, f"no queue {queue.parent}{_nearest(queue.parent, queues)}"))
    elif queue.parent and name in above:
        problems.append(document.problem(place, f"{name} would be its own ancestor"))
    elif len(above) >= LEVELS_MAX:
        problems.append(document.problem(place, f"{len(above)} queues lie above it; at most {LEVELS_MAX - 1} may"))
    return problems


def _nearest(name: str, known: Collection[str]) -> str:
    """Ask whether the nearest known name was meant."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _reclaim_problems(content: PolicyFile, document: Document) -> list[str]:
    """Find names in `never_from` that are no queue's: who was to be spared would be taken from like any other."""
    known = [FLOORS, *content.queues]
    return [
        document.problem(("reclaim", "never_from", index), f"no queue {name}{_nearest(name, known)}")
        for index, name in enumerate(content.reclaim.never_from)
        if name not in known
    ]


def _tree_problems(content: PolicyFile, document: Document) -> list[str]:
    """Find chips that are owned by no kind, and children that own more than their parent."""
    queues, problems = content.queues, []
    for name, queue in queues.items():
        if EVERY_KIND in queue.guarantee:
            place = ("queues", name, "guarantee", EVERY_KIND)
            problems.append(document.problem(place, "chips are owned by kind; write each kind's name"))
    children_of: dict[str, list[QueueSection]] = {}
    for queue in queues.values():
        children_of.setdefault(queue.parent, []).append(queue)
    for name, queue in queues.items():
        children = children_of.get(name, [])
        for kind, own in queue.guarantee.items():
            total = sum(child.guarantee.get(kind, 0) for child in children)
            if total > own:
                text = f"its queues are guaranteed {total} together, more than its own {own}"
                problems.append(document.problem(("queues", name, "guarantee", kind), text))
    return problems


def _ancestors(queues: dict[str, QueueSection], name: str) -> set[str]:
    """Give a queue's ancestors, as far as they do not repeat."""
    found: set[str] = set()
    place = queues[name].parent
    while place in queues and place not in found:
        found.add(place)
        place = queues[place].parent
    return found


def _window_problems(content: PolicyFile, document: Document) -> list[str]:
    return [
        document.problem(("maintenance", index, "to"), "must be after from")
        for index, window in enumerate(content.maintenance)
        if window.to <= window.from_
    ]


def _round_problems(content: PolicyFile, document: Document) -> list[str]:
    """Find rounds of queues whose jobs do not take turns, and rounds that a start would use up."""
    problems = []
    for name, queue in content.queues.items():
        if queue.round is None:
            continue
        if queue.order not in TIMED_ORDERS:
            text = f"order {queue.order} has no rounds; those that do are {', '.join(TIMED_ORDERS)}"
            problems.append(document.problem(("queues", name, "round"), text))
        elif queue.round.start_cost >= queue.round.every:
            text = f"a start takes {queue.round.start_cost:g} s, the whole round is {queue.round.every:g} s"
            problems.append(document.problem(("queues", name, "round", "start_cost"), text))
    return problems


def _to_policy(content: PolicyFile) -> Policy:
    """Turn the checked file into the contract."""
    rules, again = content.reclaim, content.retries
    return Policy(
        queues=tuple(_to_queue(name, queue) for name, queue in content.queues.items()),
        reclaim=Reclaim(
            at_most=rules.at_most if content.preemption else 0.0,
            never_from=_with_children(rules.never_from, content.queues),
            cooldown_s=rules.cooldown,
            evictions_at_most=rules.evictions_at_most,
            pin_s=rules.pin,
        ),
        spares=content.spares,
        breaker=content.breakers.cordon,
        maintenance=tuple(
            Window(site=w.site, rack=w.rack, spine=w.spine, node=w.node, from_us=w.from_, to_us=w.to)
            for w in content.maintenance
        ),
        retries=Retries(
            user=again.user,
            infrastructure=again.infrastructure,
            preemption=again.preemption,
            backoff_s=again.backoff,
            backoff_at_most_s=again.backoff_at_most,
        ),
        worth=content.worth,
        half_life_s=content.half_life,
        lease_s=content.lease,
        gather_s=content.gather,
        prepare_s=content.prepare,
        reservations=content.reservations,
        hold_after_s=content.hold_after,
    )


def _with_children(names: Sequence[str], queues: dict[str, QueueSection]) -> tuple[str, ...]:
    """Spare with a queue all below it, where its jobs are."""
    return (*names, *(name for name in queues if name not in names and not _ancestors(queues, name).isdisjoint(names)))


def _to_round(section: RoundSection) -> Round:
    return Round(every_s=section.every, start_s=section.start_cost, exchanges_at_most=section.exchanges_at_most)


def _to_queue(name: str, queue: QueueSection) -> Queue:
    return Queue(
        name=name,
        parent=queue.parent,
        guarantee=queue.guarantee,
        borrow=queue.borrow,
        lend=queue.lend["limits"],
        notice_s=queue.lend["notice_s"],
        weight=queue.weight,
        order=queue.order,
        round=_to_round(queue.round or RoundSection()),
        state=queue.state,
    )
