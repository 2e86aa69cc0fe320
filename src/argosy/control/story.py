"""The log filtered to one life: a job's, with its attempts, or a node's.

Reads records; must not need the state.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from argosy.control.change import AnyChange, NodeAdded, Record


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """What one record did to one life. event: what came in, by name; did: the changes that are about it."""

    seq: int
    now_us: int
    event: str
    did: tuple[AnyChange, ...]


def job_story(records: Iterable[Record], job: str) -> list[Chapter]:
    """Tell the life of a job and its attempts."""
    return list(_story(records, lambda change: _job_of(change) == job))


def node_story(records: Iterable[Record], name: str, number: int) -> list[Chapter]:
    """Tell the life of a node, also from records that begin after it came; number: its own in the node table."""

    def is_about(change: AnyChange) -> bool:
        return change.node.name == name if isinstance(change, NodeAdded) else number in _nodes_of(change)

    return list(_story(records, is_about))


def _story(records: Iterable[Record], is_about: Callable[[AnyChange], bool]) -> Iterator[Chapter]:
    for record in records:
        did = tuple(change for change in record.changes if is_about(change))
        if did:
            yield Chapter(seq=record.event.seq, now_us=record.event.now_us, event=type(record.event).__name__, did=did)


def _job_of(change: AnyChange) -> str:
    """Give the job a change is about; an attempt's name is its job's with a number."""
    attempt = str(getattr(change, "attempt", ""))
    about = str(getattr(change, "about", ""))
    return str(getattr(change, "job", "")) or (attempt or about).partition(".")[0].partition(":")[0]


def _nodes_of(change: AnyChange) -> set[int]:
    """Give the numbers of all nodes a change is about."""
    found: set[int] = set()
    number = getattr(change, "node", None)
    if isinstance(number, int):
        found.add(number)
    for item in getattr(change, "nodes", ()):
        found |= set(item) if isinstance(item, tuple) else {item}
    return found
