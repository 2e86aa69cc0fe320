"""The log: records as lines, and a state rebuilt from a snapshot and the records after it.

Replay applies what was decided and decides nothing, so another version of the code does not rewrite history. Works on
bytes that the caller keeps; no file is known here.
"""

from collections.abc import Iterable

import msgspec

from argosy.contracts.errors import BadInputError
from argosy.control.apply import apply
from argosy.control.change import CODE_VERSION, Record
from argosy.control.core import step
from argosy.control.snapshot import restore, seal, unseal
from argosy.control.state import State
from argosy.control.work import begin

_DECODER = msgspec.json.Decoder(Record)


def write_record(record: Record) -> bytes:
    """Write a record as one line: its checksum (CRC-32, eight digits), a space, and JSON."""
    return seal(msgspec.json.encode(record))


def read_record(line: bytes) -> Record:
    """Read a record from its line."""
    try:
        return _DECODER.decode(unseal(line))
    except ValueError as error:
        raise BadInputError(f"not a record of the core's log: {error}; got {line[:80]!r}") from error


def replay(state: State, records: Iterable[Record]) -> None:
    """Apply what records say was decided, in order."""
    for record in records:
        begin(state, record.event)
        for change in record.changes:
            apply(state, change)


def decide_again(state: State, record: Record) -> bool:
    """Handle a record's event anew and say whether the same came of it; records of other code are only applied."""
    if record.code != CODE_VERSION:
        replay(state, (record,))
        return True
    return write_record(step(state, record.event)) == write_record(record)


def rebuild(data: bytes, lines: Iterable[bytes]) -> State:
    """Rebuild a state from a snapshot and the lines of the log.

    Lines that the snapshot covers are passed over: whoever compacts a log may die between writing one and dropping the
    others.
    """
    state = restore(data)
    covered = state.seq
    replay(state, (record for record in map(read_record, lines) if record.event.seq > covered))
    return state
