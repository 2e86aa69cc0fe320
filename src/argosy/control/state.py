"""All that the core knows. Only `control.apply` changes it; everything else reads.

What can be worked out from the rest (counts in trees, use in quotas, groups of waiting jobs, rungs) is kept beside it
and rebuilt by `control.log.restore`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy.contracts.policy import SECOND_US, Policy
from argosy.contracts.request import Claim
from argosy.control.lanes import GroupKey, Lanes
from argosy.control.nodes import FOREVER, NodeTable
from argosy.control.quota import Amounts, QuotaTree
from argosy.control.rungs import Rung
from argosy.control.shapes import Shapes


@dataclass(slots=True)
class JobState:
    """One job's life. id: `job-SEQ`. avoid: nodes it never gets again. spent: retries used, by who was to blame.

    done_tokens: reckoned from the rates of its rungs, up to ran_us, since when it runs at pace tokens a second.
    exchanges: times it gave way at the end of a round; turns_us: what it ran before that, which counts in its limit.
    """

    id: str
    number: int
    claim: Claim
    state: str = "waiting"
    asked: bool = False
    attempt: str = ""
    attempts: int = 0
    submitted_us: int = 0
    since_us: int = 0
    not_before_us: int = 0
    avoid: tuple[int, ...] = ()
    evidence: tuple[str, ...] = ()
    spent: dict[str, int] = field(default_factory=dict)
    evictions: int = 0
    evicted_us: int = -FOREVER
    reclaimed_us: int = -FOREVER
    reason: str = ""
    text: str = ""
    ended_us: int = 0
    rungs: tuple[Rung, ...] = ()
    done_tokens: int = 0
    ran_us: int = 0
    pace: float = 0.0
    exchanges: int = 0
    turns_us: int = 0

    def done_by(self, now_us: int) -> int:
        """Give the tokens it has trained by now."""
        since_us = now_us - self.ran_us if self.pace else 0
        return self.done_tokens + round(self.pace * since_us / SECOND_US)


@dataclass(slots=True)
class AttemptState:
    """One try at running a job: its generation, the rung it runs at, its nodes by part, and what they count for.

    up: all ranks of this generation were at work.
    """

    id: str
    job: str
    rung: Rung
    nodes: tuple[tuple[int, ...], ...]
    began_us: int
    began_seq: int
    ends_us: int
    generation: int = 1
    regrouped_us: int = 0
    up: bool = False
    amounts: Amounts = ()

    @property
    def has_end(self) -> bool:
        """Whether a time limit ends it."""
        return self.ends_us < FOREVER

    def all_nodes(self) -> tuple[int, ...]:
        """List the nodes of all parts."""
        return tuple(number for part in self.nodes for number in part)


@dataclass(slots=True)
class Reservation:
    """Nodes held for a waiting job. rung: what they suffice for."""

    job: str
    rung: Rung
    nodes: tuple[int, ...]
    from_us: int
    pinned: bool
    expires_us: int


@dataclass(slots=True)
class QueueUse:
    """A queue's past use in normalised thousandths of chips x microseconds, faded up to a time."""

    use: int = 0
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class Blocked:
    """What the pass noted for a group. code: empty where nodes and quotas tell; detail: figures of a reclaim.

    closed: pools that those ahead in a strict queue wait for.
    """

    code: str = ""
    detail: str = ""
    closed: frozenset[int] = frozenset()


BLOCKED = Blocked()

LOST_NODES = "lost nodes"
"""Why a job waits again that lost nodes for which there were no others."""


class State:
    """The whole. why: what the last pass found for each waiting job's group; never logged, never restored.

    arrived: groups that jobs came to since the pass took them in. holding: attempts on each pool's nodes, by queue.
    amounts: chips by kind of what was asked for by pool. leased_us: till then nodes may hold a longer lease than is
    given now.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.seq = 0
        self.now_us = 0
        self.term = 0
        self.policy = Policy()
        self.nodes = NodeTable()
        self.jobs: dict[str, JobState] = {}
        self.attempts: dict[str, AttemptState] = {}
        self.reservations: dict[str, Reservation] = {}
        self.timers: list[tuple[int, str, str]] = []
        self.rounds: dict[str, int] = {}
        self.leased_us = 0
        self.cordons: list[int] = []
        self.use: dict[str, QueueUse] = {}
        self.early: dict[str, list[int]] = {}
        self.ended: list[str] = []
        self.quota = QuotaTree(self.policy, ())
        self.shapes = Shapes()
        self.shape_of: dict[str, int] = {}
        self.arrived: list[GroupKey] = []
        self.waiting: dict[GroupKey, list[tuple[int, int, str]]] = {}
        self.lanes = Lanes()
        self.holding: list[dict[int, set[str]]] = []
        self.amounts: dict[tuple[tuple[int, int], ...], Amounts] = {}
        self.why: Mapping[GroupKey, Blocked] = {}

    def queue_of(self, job: JobState) -> int:
        """Give the number of a job's queue."""
        return self.quota.number[job.claim.queue]

    def kind_of_pool(self, pool: int) -> int:
        """Give the quota kind's number of a pool."""
        return self.quota.kinds.index(self.nodes.pools[pool].kind)

    def count_capacity(self) -> None:
        """Count chips in ready nodes by kind, which the sum of all queues may not exceed."""
        chips = [0] * (len(self.quota.kinds) - 1)
        for number, pool in enumerate(self.nodes.pools):
            chips[self.kind_of_pool(number)] += self.nodes.ready_count[number] * pool.chips_per_node
        self.quota.count_capacity(chips)

    def amounts_of(self, rung: Rung) -> Amounts:
        """Give the chips by kind that a rung takes, normalised sum included."""
        if rung.chips not in self.amounts:
            chips: dict[int, int] = {}
            for pool, count in rung.chips:
                kind = self.kind_of_pool(pool)
                chips[kind] = chips.get(kind, 0) + count
            self.amounts[rung.chips] = self.quota.amounts(chips)
        return self.amounts[rung.chips]

    @staticmethod
    def us(seconds: float) -> int:
        """Give a policy's seconds in the clock's microseconds."""
        return round(seconds * SECOND_US)

    def half_life_us(self) -> int:
        """Give the half-life of past use."""
        return max(1, round(self.policy.half_life_s * SECOND_US))
