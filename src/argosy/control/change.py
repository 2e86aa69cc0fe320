"""What the core decided, in small facts: the log keeps them, and applying them is the only way the state moves.

Nodes are named by their number in the node table, which never changes. Pure data; what each does is `control.apply`.
"""

import msgspec

from argosy.contracts.command import AnyCommand
from argosy.contracts.event import AnyEvent
from argosy.contracts.fleet import Node
from argosy.contracts.policy import Policy
from argosy.contracts.request import Claim, Pool
from argosy.control.rungs import Rung

CODE_VERSION = 5
"""Raised when the same events may be decided differently; records of other versions are applied, never re-decided."""

EVIDENCE_KEPT = 64
"""How many pieces of evidence a job remembers."""


class Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """One fact."""


class TermSet(Change, frozen=True, kw_only=True, tag="term"):
    """Another writer leads."""

    term: int


class PolicySet(Change, frozen=True, kw_only=True, tag="policy"):
    """These rules hold."""

    policy: Policy


class PoolAdded(Change, frozen=True, kw_only=True, tag="pool+"):
    """A pool exists."""

    pool: Pool


class NodeAdded(Change, frozen=True, kw_only=True, tag="node+"):
    """A node exists."""

    node: Node


class NodeRetired(Change, frozen=True, kw_only=True, tag="node-"):
    """A node is gone for good."""

    node: int


class NodeObserved(Change, frozen=True, kw_only=True, tag="observed"):
    """A node is seen as this. lease_us: when its ranks are parked for certain; 0 where that does not matter."""

    node: int
    observed: str
    lease_us: int = 0


class NodeIntended(Change, frozen=True, kw_only=True, tag="intent"):
    """People want a node so. empty_by_us: when a draining node's jobs have to leave; FOREVER (2^62) waits for them."""

    node: int
    intent: str
    empty_by_us: int = 2**62


class NodeTrusted(Change, frozen=True, kw_only=True, tag="trust"):
    """A node is trusted or not. counted: it counts against the breaker."""

    node: int
    trust: str
    counted: bool = False


class NodesLeft(Change, frozen=True, kw_only=True, tag="left"):
    """The holder no longer counts on these nodes, and waits until they are surely free of it, by_us at the latest."""

    nodes: tuple[int, ...]
    by_us: int = 0


class NodesFreed(Change, frozen=True, kw_only=True, tag="freed"):
    """Nothing runs on these nodes for certain."""

    nodes: tuple[int, ...]


class SparesSet(Change, frozen=True, kw_only=True, tag="spares"):
    """These nodes are spares, or no longer are."""

    nodes: tuple[int, ...]
    spare: bool


class WindowsTurned(Change, frozen=True, kw_only=True, tag="windows"):
    """A maintenance window began, ended or was announced: until when each of these nodes may be used."""

    nodes: tuple[int, ...]
    until_us: tuple[int, ...]


class JobAdded(Change, frozen=True, kw_only=True, tag="job+"):
    """A job is known and waits."""

    job: str
    claim: Claim


class JobOptions(Change, frozen=True, kw_only=True, tag="options"):
    """These are the ways to run the job, best first."""

    job: str
    rungs: tuple[Rung, ...]


class JobAsked(Change, frozen=True, kw_only=True, tag="asked"):
    """The planner was asked for ways to run the job."""

    job: str


class JobMoved(Change, frozen=True, kw_only=True, tag="job"):
    """A job goes to another state. reason: an ending, or why it stops; text: for people."""

    job: str
    to: str
    reason: str = ""
    text: str = ""


class JobSpent(Change, frozen=True, kw_only=True, tag="spent"):
    """A retry is used up. not_before_us: it does not start again earlier."""

    job: str
    blame: str
    not_before_us: int = 0


class JobTold(Change, frozen=True, kw_only=True, tag="evidence"):
    """A piece of evidence has acted on the job; avoid: nodes it never gets again."""

    job: str
    evidence: str = ""
    avoid: tuple[int, ...] = ()


class JobReclaimed(Change, frozen=True, kw_only=True, tag="reclaim"):
    """A job had others evicted; it may again only after the cooldown."""

    job: str


class AttemptBegan(Change, frozen=True, kw_only=True, tag="attempt+"):
    """A job got nodes, by parts of the rung it runs at. ends_us: by its time limit."""

    attempt: str
    job: str
    rung: Rung
    nodes: tuple[tuple[int, ...], ...]
    ends_us: int


class AttemptRegrouped(Change, frozen=True, kw_only=True, tag="regrouped"):
    """The next generation of an attempt, on these nodes; what it had and is not among them was left before."""

    attempt: str
    generation: int
    rung: Rung
    nodes: tuple[tuple[int, ...], ...]


class AttemptGone(Change, frozen=True, kw_only=True, tag="attempt-"):
    """An attempt holds nothing any more."""

    attempt: str


class Reserved(Change, frozen=True, kw_only=True, tag="reserve"):
    """Nodes are held for a waiting job.

    from_us: when they are all free, by time limits. pinned: they were freed for it, and nobody else may use them.
    expires_us: the hold ends then.
    """

    job: str
    rung: Rung
    nodes: tuple[int, ...]
    from_us: int
    pinned: bool = False
    expires_us: int = 0


class Unreserved(Change, frozen=True, kw_only=True, tag="unreserve"):
    """Nothing is held for a job any more."""

    job: str


class TimerSet(Change, frozen=True, kw_only=True, tag="timer"):
    """At this time something must be looked at again."""

    at_us: int
    purpose: str
    about: str = ""


class RoundBegan(Change, frozen=True, kw_only=True, tag="round"):
    """A queue's chips were dealt anew; its jobs keep them until the round ends."""

    queue: str
    ends_us: int


class TimersDone(Change, frozen=True, kw_only=True, tag="timers"):
    """All timers up to this time went off."""

    up_to_us: int


class JobsForgotten(Change, frozen=True, kw_only=True, tag="forgot"):
    """The oldest ended jobs are dropped from the state; the log still has them."""

    jobs: tuple[str, ...]


class Refused(Change, frozen=True, kw_only=True, tag="refused"):
    """The event was old, unknown or impossible, and nothing was done; why."""

    about: str
    text: str


AnyChange = (
    TermSet
    | PolicySet
    | PoolAdded
    | NodeAdded
    | NodeRetired
    | NodeObserved
    | NodeIntended
    | NodeTrusted
    | NodesLeft
    | NodesFreed
    | SparesSet
    | WindowsTurned
    | JobAdded
    | JobOptions
    | JobAsked
    | JobMoved
    | JobSpent
    | JobTold
    | JobReclaimed
    | AttemptBegan
    | AttemptRegrouped
    | AttemptGone
    | Reserved
    | Unreserved
    | TimerSet
    | RoundBegan
    | TimersDone
    | JobsForgotten
    | Refused
)


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the log: what came in, what was decided, what is to be done. code: version of the deciding code."""

    event: AnyEvent
    changes: tuple[AnyChange, ...] = ()
    commands: tuple[AnyCommand, ...] = ()
    code: int = 0
