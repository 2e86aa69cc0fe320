"""What of a record people may want to know, in words: the events that the API streams.

Reads records; must not know who listens. An event's id is `SEQ.INDEX`, so a reader can go on after the last it saw.
"""

from collections.abc import Callable, Iterator, Sequence

from argosy.contracts.command import Tell
from argosy.contracts.event import AttemptEnded
from argosy.control import change as ch
from argosy.control.change import Record
from argosy.control.log import read_record
from argosy.control.state import State
from argosy.server.models import EventView, OwnEvent
from argosy.server.store import Store

SHOWN_MAX = 4
RECORDS_AT_ONCE = 500
FAILED = "failed_"
"""What the reasons of jobs begin with whose code, or whose hosts, let them down."""


def told(record: Record, names: Sequence[str]) -> Iterator[EventView]:
    """Tell what a record did, to everybody: not the last words of a job's code. names: of the nodes by number."""
    event, seq = record.event, record.event.seq
    rows = [row for change in record.changes for row in _of_change(change, names)]
    rows += _of_commands(record)
    words = event.text if isinstance(event, AttemptEnded) else ""
    rows = [(kind, about, _without(words, text) if _is_of_job(kind) else text) for kind, about, text in rows]
    for index, (kind, about, text) in enumerate(rows):
        yield EventView(id=f"{seq}.{index}", at_us=event.now_us, kind=kind, about=about, text=text)


def noted(state: State, kind: str, about: str, text: str, now_us: int) -> Callable[[str], EventView]:
    """Tell what is in no record; gives what makes the event once it has an id. A job's notes may have its own words."""
    job = state.jobs.get(about)
    if job is None:
        return lambda name: EventView(id=name, at_us=now_us, kind=kind, about=about, text=text)
    owner = job.claim.owner
    return lambda name: OwnEvent(id=name, at_us=now_us, kind=kind, about=about, text=text, owner=owner)


def _is_of_job(kind: str) -> bool:
    return kind == "told" or kind.startswith("job.")


def _without(words: str, text: str) -> str:
    """Leave out what the code of a job said last; its end, told once the nodes are free, has that after its reason."""
    kept = text.replace(words, "").removesuffix(", ") if words else text
    reason, _, _ = kept.partition(", ")
    return reason if FAILED in reason else kept


def _of_commands(record: Record) -> Iterator[tuple[str, str, str]]:
    for command in record.commands:
        if isinstance(command, Tell):
            yield "told", command.about, command.text


def _of_change(change: ch.AnyChange, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    match change:
        case ch.JobAdded(job=job, claim=claim):
            yield "job.submitted", job, f"{claim.name} to {claim.queue}" + _by(claim.owner)
        case ch.JobOptions(job=job, rungs=rungs):
            yield "job.options", job, f"{len(rungs)} way{'' if len(rungs) == 1 else 's'} to run it"
        case ch.JobMoved(job=job, to=to, reason=reason, text=text):
            yield f"job.{to}", job, ", ".join(filter(None, (reason, text)))
        case ch.AttemptBegan(attempt=attempt, nodes=nodes):
            yield "attempt.began", attempt, f"on {_shown(nodes, names)}"
        case ch.AttemptRegrouped(attempt=attempt, generation=generation, nodes=nodes):
            yield "attempt.regrouped", attempt, f"generation {generation} on {_shown(nodes, names)}"
        case ch.Reserved(job=job, nodes=nodes):
            yield "job.reserved", job, f"{_shown((nodes,), names)} held for it"
        case ch.PolicySet():
            yield "policy", "fleet", "people changed the rules"
        case ch.TermSet(term=term):
            yield "term", "fleet", f"term {term} began"
        case _:
            yield from _of_nodes(change, names)


def _of_nodes(change: ch.AnyChange, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    match change:
        case ch.NodeAdded(node=node):
            yield "node.added", node.name, node.chip_class
        case ch.NodeRetired(node=number):
            yield "node.retired", names[number], ""
        case ch.NodeObserved(node=number, observed=observed):
            yield f"node.{observed}", names[number], ""
        case ch.NodeIntended(node=number, intent=intent):
            yield f"node.{intent}", names[number], ""
        case ch.NodeTrusted(node=number, trust=trust):
            yield f"node.{trust}", names[number], ""
        case ch.Refused(about=about, text=text):
            yield "refused", about, text


def deeds(changes: Sequence[ch.AnyChange], names: Sequence[str]) -> list[str]:
    """Say in a few words each what changes did, for a story."""
    rows = [row for change in changes for row in _of_change(change, names)]
    return [f"{kind}: {text}" if text else kind for kind, _, text in rows]


def _shown(parts: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Name a few nodes and count the rest."""
    numbers = [number for part in parts for number in part]
    shown = ", ".join(names[number] for number in numbers[:SHOWN_MAX])
    return shown + (f" and {len(numbers) - SHOWN_MAX} more" if len(numbers) > SHOWN_MAX else "")


def _by(owner: str) -> str:
    return f", by {owner}" if owner else ""


def kept_events(store: Store, names: Sequence[str], seq: int) -> list[EventView]:
    """Tell the records after a number from the store, oldest first: the first few that anybody may want to know."""
    found: list[EventView] = []
    while not found and (lines := store.lines_after(seq, RECORDS_AT_ONCE)):
        records = [read_record(line) for line in lines]
        found = [event for record in records for event in told(record, names)]
        seq = records[-1].event.seq
    return found
