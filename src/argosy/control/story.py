"""The log filtered to one life: a job's, with its attempts.

Reads records; must not need the state.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from argosy.control.change import AnyChange, Record


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """What one record did to one life. event: what came in, by name; did: the changes that are about it."""

    seq: int
    now_us: int
    event: str
    did: tuple[AnyChange, ...]


def job_story(records: Iterable[Record], job: str) -> list[Chapter]:
    """Tell the life of a job and its attempts."""
    return list(_story(records, lambda change: _job_of(change) == job))


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
