"""Which function handles which event. A table only; must not know what they do."""

from collections.abc import Callable
from typing import Any

from argosy.contracts import event as ev
from argosy.control import on_attempts, on_fleet, on_jobs, on_time
from argosy.control.work import Work

HANDLERS: dict[type, Callable[[Work, Any], None]] = {
    ev.TermBegan: on_fleet.term_began,
    ev.PolicyChanged: on_fleet.policy_changed,
    ev.FleetDescribed: on_fleet.fleet_described,
    ev.NodesRetired: on_fleet.nodes_retired,
    ev.NodeSeen: on_fleet.node_seen,
    ev.IntentChanged: on_fleet.intent_changed,
    ev.TrustChanged: on_fleet.trust_changed,
    ev.JobSubmitted: on_jobs.job_submitted,
    ev.OptionsOffered: on_jobs.options_offered,
    ev.OptionsRefused: on_jobs.options_refused,
    ev.StopAsked: on_jobs.stop_asked,
    ev.AttemptRunning: on_attempts.attempt_running,
    ev.AttemptEnded: on_attempts.attempt_ended,
    ev.NodesReleased: on_attempts.nodes_released,
    ev.IncidentFound: on_attempts.incident_found,
    ev.TimeReached: on_time.time_reached,
    ev.PassDue: on_time.pass_due,
}
