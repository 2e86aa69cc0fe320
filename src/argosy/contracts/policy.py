"""How the fleet is shared: queues with what they own, borrow and lend, and the rules of reclaim, spares and retries.

Pure data, times in whole microseconds where the core compares them with its clock; reading `queues.yaml` is
`contracts.policy_file`. Amounts of chips are per chip kind; the kind `normalised` counts every chip by its worth.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

NORMALISED = "normalised"
"""The kind under which a limit counts chips of every kind, each by its worth."""

EVERY_KIND = "*"
"""The kind under which a limit holds for each kind that has no limit of its own."""

FLOORS = "serving floors"
"""Stands among the queues that are never taken from for the fewest replicas of serving jobs."""

LEVELS_MAX = 32
"""How many queues may lie on the way from one without a parent to a leaf, both included."""

Order = Literal["best_effort", "strict", "fifo", "shortest_remaining", "fair", "makespan"]
ORDERS: tuple[str, ...] = get_args(Order)
TIMED_ORDERS = ORDERS[2:]
"""Orders in which a queue's jobs take turns: at the end of a round its chips are dealt anew."""

QUEUE_STATES = ("open", "closed", "draining")
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """How a queue's jobs take turns.

    every_s: after that running jobs may give way to others of their queue, or move to other chips. start_s: what a
    start is reckoned to cost a job. exchanges_at_most: by which one job may be hit in its life; None: any number.
    """

    every_s: float = 360.0
    start_s: float = 0.0
    exchanges_at_most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Where a tenant's jobs wait, and what the tenant may have.

    parent: a queue whose children this one shares with; empty for the top. guarantee: chips it owns, by kind; a parent
    that states none owns what its children own. borrow, lend: the most it takes from, or gives to, others by kind; no
    entry means no limit. notice_s: what its borrowers are given before lent chips are taken back, and its own jobs at
    the end of a round. order: `strict` lets nothing pass a blocked job within a chip kind; the TIMED_ORDERS deal its
    chips anew every round. state: `closed` takes no new jobs, `draining` also starts none.
    """

    name: str
    parent: str = ""
    guarantee: dict[str, int] = field(default_factory=dict)
    borrow: dict[str, int] = field(default_factory=dict)
    lend: dict[str, int] = field(default_factory=dict)
    notice_s: float = 0.0
    weight: float = 1.0
    order: str = "best_effort"
    round: Round = field(default_factory=Round)
    state: str = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """How lent chips are taken back.

    at_most: evicted chips / requested chips. never_from: queues, or `serving floors`, that are never evicted.
    cooldown_s: a job that was evicted, or that evicted, is left alone or waits this long. evictions_at_most: by which
    one job may be hit in its life. pin_s: how long freed nodes are kept for the job they were freed for.
    """

    at_most: float = 1.5
    never_from: tuple[str, ...] = (FLOORS,)
    cooldown_s: float = 600.0
    evictions_at_most: int = 5
    pin_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Stops detectors from emptying the fleet: at most `share` of all nodes are cordoned by them within `window_s`."""

    share: float = 0.02
    window_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A maintenance window. rack, spine, node: narrow it within the site; None and empty mean the whole site."""

    site: str
    from_us: int
    to_us: int
    rack: int | None = None
    spine: int | None = None
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a job starts again, by who was to blame, and how long it waits first.

    The first retry starts at once; the n-th waits backoff_s x 2^(n-2), at most backoff_at_most_s, with up to a quarter
    of that added by chance.
    """

    user: int = 0
    infrastructure: int = 20
    preemption: int = 100
    backoff_s: float = 5.0
    backoff_at_most_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything about sharing that people decide; changing it is an event.

    spares: site -> healthy idle nodes kept for replacements, of each class there. worth: chip kind -> what one chip
    counts in normalised chips, 1 where absent. half_life_s: of past use in the fair share. lease_s: after it a node
    that does not answer has parked its ranks. gather_s: how long failures are gathered, so that nodes are replaced
    together. prepare_s: the longest a launch may take. reservations: held at once per class for blocked gangs.
    hold_after_s: a blocked gang whose start no time limit tells keeps nodes that fall free once it has waited so long.
    """

    queues: tuple[Queue, ...] = (Queue(name="default"),)
    reclaim: Reclaim = field(default_factory=Reclaim)
    spares: dict[str, int] = field(default_factory=dict)
    breaker: Breaker = field(default_factory=Breaker)
    maintenance: tuple[Window, ...] = ()
    retries: Retries = field(default_factory=Retries)
    worth: dict[str, float] = field(default_factory=dict)
    half_life_s: float = 86_400.0
    lease_s: float = 30.0
    gather_s: float = 2.0
    prepare_s: float = 1_800.0
    reservations: int = 4
    hold_after_s: float = 900.0
    version: int = 1
