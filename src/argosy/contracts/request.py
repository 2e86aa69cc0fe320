"""What the scheduler is told of a job and of the fleet: pools of like nodes, and the claim that a job makes on them.

Pure data. How the job trains is no part of it: that is in the options that the planner offers.
"""

from dataclasses import dataclass

OBSERVED = ("unknown", "up", "suspect", "down")
INTENTS = ("open", "cordoned", "draining")
TRUSTS = ("ok", "quarantined")
JOB_STATES = ("waiting", "reserved", "preparing", "running", "recovering", "stopping", "ended")
ENDINGS = ("done", "failed_user", "failed_infrastructure", "never_fits", "stopped", "time_limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A class of like nodes, as the scheduler needs it. kind: the chip's name, in which quotas are written."""

    name: str
    kind: str
    site: str
    chips_per_node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a job asks of the fleet.

    kind: train, run or serve. goal: fastest, cheapest or deadline. work_tokens: what is left to train, for deadlines.
    elastic: the job may change its size while it runs. preemptible: it may be evicted from what it borrows.
    """

    name: str
    queue: str
    owner: str = ""
    kind: str = "train"
    priority: int = 0
    time_limit_us: int | None = None
    goal: str = "fastest"
    deadline_us: int | None = None
    work_tokens: int | None = None
    elastic: bool = False
    preemptible: bool = True
    user_retries: int | None = None
    version: int = 1
