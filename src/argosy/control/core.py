"""The core's one entry: an event goes in, decisions are made and applied, a record comes out.

Two rules hold here. The state is touched by applying changes alone, and an event is judged before it is handled: its
number must follow, its time must not go back, its term must be the current one. After BadInputError the event never
happened; after any other exception the state is void: rebuild it from snapshot and log.
"""

from collections.abc import Callable
from typing import Any

from argosy.contracts import event as ev
from argosy.contracts.event import AnyEvent
from argosy.control import on_attempts, on_fleet, on_jobs, on_time
from argosy.control.change import Record
from argosy.control.intake import take_in
from argosy.control.state import State
from argosy.control.work import Work, begin

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


def step(state: State, event: AnyEvent) -> Record:
    """Handle one event: the record holds it, what was decided, and the commands to send once it is in the log.

    Raises BadInputError for an event that can't be logged or counted with.
    """
    take_in(event)
    begin(state, event)
    work = Work(state, event)
    if event.term < state.term:
        work.refuse("term", f"written under term {event.term}; {state.term} leads")
    elif event.term > state.term and not isinstance(event, ev.TermBegan):
        work.refuse("term", f"term {event.term} has not begun")
    else:
        HANDLERS[type(event)](work, event)
    return work.record()
