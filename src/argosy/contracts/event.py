"""What the core is told: every input of `control.core.step`, and nothing else reaches it.

The log's writer stamps seq (counted from 1), now_us (never backwards) and term. Heartbeats and telemetry are no
events: only transitions are. Pure data.
"""

import msgspec

from argosy.contracts.fleet import Node
from argosy.contracts.incident import Incident
from argosy.contracts.option import Option
from argosy.contracts.policy import Policy
from argosy.contracts.request import Claim, Pool


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """What every event carries."""

    seq: int = 0
    now_us: int = 0
    term: int = 0


class TermBegan(Event, frozen=True, kw_only=True, tag="term_began"):
    """The writer leads from now on; its term is the event's."""


class PolicyChanged(Event, frozen=True, kw_only=True, tag="policy_changed"):
    """People changed the rules."""

    policy: Policy


class FleetDescribed(Event, frozen=True, kw_only=True, tag="fleet_described"):
    """These pools and nodes exist; those known already stay as they are, new ones are added in state unknown."""

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]


class NodesRetired(Event, frozen=True, kw_only=True, tag="nodes_retired"):
    """These nodes left the fleet for good."""

    nodes: tuple[str, ...]


class NodeSeen(Event, frozen=True, kw_only=True, tag="node_seen"):
    """What is observed of a node changed. fenced: its former processes are known to be gone (a new boot)."""

    node: str
    observed: str
    fenced: bool = False


class IntentChanged(Event, frozen=True, kw_only=True, tag="intent_changed"):
    """A person opens, cordons or drains nodes. deadline_us: when a draining node's jobs are evicted; None waits."""

    nodes: tuple[str, ...]
    intent: str
    deadline_us: int | None = None
    by: str = ""


class TrustChanged(Event, frozen=True, kw_only=True, tag="trust_changed"):
    """A node passed its checks, or a check failed. evidence: what was seen, by name."""

    node: str
    trust: str
    evidence: str = ""


class JobSubmitted(Event, frozen=True, kw_only=True, tag="job_submitted"):
    """A user hands in a job; its id becomes `job-SEQ`. options: where they are known already."""

    claim: Claim
    options: tuple[Option, ...] = ()


class OptionsOffered(Event, frozen=True, kw_only=True, tag="options_offered"):
    """The planner answers: ways to run the job, as many as it found."""

    job: str
    options: tuple[Option, ...]


class OptionsRefused(Event, frozen=True, kw_only=True, tag="options_refused"):
    """The planner answers that nothing in this fleet can run the job, and why."""

    job: str
    text: str


class StopAsked(Event, frozen=True, kw_only=True, tag="stop_asked"):
    """A person wants the job to end."""

    job: str
    by: str = ""


class AttemptRunning(Event, frozen=True, kw_only=True, tag="attempt_running"):
    """All ranks of this generation are at work."""

    attempt: str
    generation: int


class AttemptEnded(Event, frozen=True, kw_only=True, tag="attempt_ended"):
    """The ranks of this generation ended by themselves.

    outcome: done, user or infrastructure. evidence: names what was seen; the same evidence never acts twice.
    """

    attempt: str
    generation: int
    outcome: str
    evidence: str = ""
    text: str = ""


class NodesReleased(Event, frozen=True, kw_only=True, tag="nodes_released"):
    """Agents confirm that no process of the attempt up to this generation is left on these nodes."""

    attempt: str
    generation: int
    nodes: tuple[str, ...]


class IncidentFound(Event, frozen=True, kw_only=True, tag="incident_found"):
    """Health judged a fault of a running attempt. nodes: the culprits' hosts. evidence: names what was seen."""

    attempt: str
    generation: int
    evidence: str
    incident: Incident
    nodes: tuple[str, ...] = ()


class TimeReached(Event, frozen=True, kw_only=True, tag="time_reached"):
    """The time that a WakeAt asked for has come."""


class PassDue(Event, frozen=True, kw_only=True, tag="pass_due"):
    """Run the pass now; one answers all the RunPass commands since the last."""


AnyEvent = (
    TermBegan
    | PolicyChanged
    | FleetDescribed
    | NodesRetired
    | NodeSeen
    | IntentChanged
    | TrustChanged
    | JobSubmitted
    | OptionsOffered
    | OptionsRefused
    | StopAsked
    | AttemptRunning
    | AttemptEnded
    | NodesReleased
    | IncidentFound
    | TimeReached
    | PassDue
)
