"""Why a job waits: one code, what each option needs beside what is free, who is in the way, and what would help.

Pure data, made by `control` on every pass and shown by `argosy explain`.
"""

from dataclasses import dataclass

CODES: dict[str, str] = {
    "NO_OPTIONS": "the planner has not answered yet",
    "QUEUE_DRAINING": "the queue starts no jobs",
    "BACKOFF": "a retry waits its time",
    "TURN": "the queue shares its chips in rounds and others have their turn",
    "NO_QUOTA": "the queue has what it may have",
    "ORDER": "the queue is strict and a job ahead waits for the same chips",
    "NO_CAPACITY": "the nodes are in use",
    "FRAGMENTATION": "enough nodes are free, but not near enough to one another",
    "RESERVED": "free nodes are held for a job ahead, and this one would not end in time",
    "MAINTENANCE": "free nodes are due for maintenance before this job would end",
    "SPARES": "free nodes are kept as spares",
    "NODES_DOWN": "enough nodes exist, but too many are down, cordoned, in quarantine or have failed this job",
    "RECLAIMING": "nodes are being freed for this job",
    "RECLAIM_CAP": "taking lent nodes back would stop more than the cap allows",
    "NEVER_FITS": "the fleet as it is now can never hold it",
    "NEXT_PASS": "nodes became free since the pass looked at it; the next one is due",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one part of one option needs, and what there is.

    near: the topology level its nodes must share. largest: free nodes in the fullest domain of that level, domain its
    name. owned: nodes of the class, whatever their state.
    """

    option: str
    pool: str
    nodes: int
    near: str
    free: int
    largest: int
    domain: str
    owned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A job that holds nodes another waits for. ends_us: by its time limit; None where it has none."""

    job: str
    name: str
    ends_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyPending:
    """The answer to "why does my job wait".

    code: one of CODES. ahead: jobs of its queue before it. eta_p90_us: when it starts if all end by their time limits;
    eta_p50_us: if they end as early as those before them did. change: what would start it sooner, or empty.
    """

    job: str
    code: str
    text: str
    at_us: int
    since_us: int
    needs: tuple[Need, ...] = ()
    blockers: tuple[Blocking, ...] = ()
    ahead: int = 0
    eta_p50_us: int | None = None
    eta_p90_us: int | None = None
    change: str = ""
    version: int = 1

    @property
    def start_unknown(self) -> str:
        """Say why nobody can tell when it starts; empty where that is foretold."""
        if self.eta_p50_us is not None:
            return ""
        endless = next((each for each in self.blockers if each.ends_us is None), None)
        if endless is not None:
            return f"{endless.name} ({endless.job}) has no time limit"
        if self.blockers:
            return "no nodes are held for it, so others may take those that fall free"
        return f"{CODES[self.code]}, for nobody knows how long"
