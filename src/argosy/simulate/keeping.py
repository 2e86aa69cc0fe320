"""What a crash of the simulated server leaves: the last snapshot, and the log's lines after it.

Must not know why anything was decided.
"""

from collections.abc import Callable

from argosy.control.change import Record
from argosy.control.log import decide_again, read_record, rebuild, replay, write_record
from argosy.control.snapshot import restore, snapshot
from argosy.control.state import State

COMPACT_AFTER = 120


class Kept:
    """Snapshot and lines. after_event: is told of each record when what it commands is done."""

    def __init__(self, state: State) -> None:
        self.snapshot = snapshot(state)
        self.lines: list[bytes] = []
        self.after_event: Callable[[Record], None] = lambda _record: None

    def add(self, record: Record, state: State) -> None:
        """Append a record; now and then a snapshot replaces the lines. state: as the record left it."""
        self.lines.append(write_record(record))
        if len(self.lines) >= COMPACT_AFTER:
            self.snapshot, self.lines = snapshot(state), []

    def rebuilt(self) -> State:
        """Rebuild the state."""
        return rebuild(self.snapshot, self.lines)

    def problem(self, state: State) -> str:
        """Replay the lines, and decide anew on each; say what comes out otherwise than in a state, empty if nothing."""
        again = restore(self.snapshot)
        records = [read_record(line) for line in self.lines]
        replay(again, records)
        if snapshot(again) != snapshot(state):
            return "the log replayed gives another state"
        anew = restore(self.snapshot)
        for record in records:
            if not decide_again(anew, record):
                return f"event {record.event.seq} is decided otherwise the second time"
        return ""
