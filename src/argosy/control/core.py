"""The core's one entry: an event goes in, decisions are made and applied, a record comes out.

Two rules hold here. The state is touched by applying changes alone, and an event is judged before it is handled: its
number must follow, its time must not go back, its term must be the current one. After BadInputError the event never
happened; after any other exception the state is void: rebuild it from snapshot and log.
"""

from argosy.contracts.event import AnyEvent, TermBegan
from argosy.control.change import Record
from argosy.control.handlers import HANDLERS
from argosy.control.intake import take_in
from argosy.control.state import State
from argosy.control.work import Work, begin


def step(state: State, event: AnyEvent) -> Record:
    """Handle one event: the record holds it, what was decided, and the commands to send once it is in the log.

    Raises BadInputError for an event that can't be logged or counted with.
    """
    take_in(event)
    begin(state, event)
    work = Work(state, event)
    if event.term < state.term:
        work.refuse("term", f"written under term {event.term}; {state.term} leads")
    elif event.term > state.term and not isinstance(event, TermBegan):
        work.refuse("term", f"term {event.term} has not begun")
    else:
        HANDLERS[type(event)](work, event)
    return work.record()
