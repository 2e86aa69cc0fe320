"""The core's state in the store: a record's line, a snapshot now and then, and the state rebuilt from both.

Must not know what is decided, nor when.
"""

import logging

from argosy.contracts.errors import InfrastructureError
from argosy.control.change import Record
from argosy.control.log import rebuild, write_record
from argosy.control.snapshot import snapshot
from argosy.control.state import State
from argosy.server.store import Store

LOG = logging.getLogger("argosy.server")
COMPACT_AFTER = 2_000
"""Lines after which a new snapshot replaces them."""


def line_of(record: Record) -> tuple[int, bytes]:
    """Give a record's number and line."""
    return record.event.seq, write_record(record)


class Memory:
    """Keeps the state of one core in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._since_snapshot = 0

    def rebuilt(self) -> State:
        """Rebuild the state from what was committed, or begin one. Raises InfrastructureError."""
        data, lines = self._store.recall()
        self._since_snapshot = len(lines)
        return rebuild(data if data is not None else snapshot(State()), lines)

    def grown(self, state: State, count: int) -> None:
        """Take a snapshot when enough lines were committed; one that can't be written is taken later."""
        self._since_snapshot += count
        if self._since_snapshot < COMPACT_AFTER:
            return
        self._since_snapshot = 0
        try:
            self._store.keep(state.seq, snapshot(state))
        except InfrastructureError as error:
            LOG.error("%s", error)
