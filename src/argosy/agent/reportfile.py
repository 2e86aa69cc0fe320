"""Where a runner keeps what its ranks report, for the agent to hand on, and what the runner learns of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.launching import read_upward, write_line
from argosy.contracts.messages import Failed, Ready, StepDone, Upward


@dataclass(slots=True)
class ReportFile:
    """Reports of one generation's ranks on a node.

    ready: pids of ranks at work. failed: last words of those that gave up. step: the newest reported.
    """

    path: Path
    node: str
    ready: dict[int, int] = field(default_factory=dict)
    failed: dict[int, Failed] = field(default_factory=dict)
    step: int | None = None

    def take(self, rank: int, lines: Iterable[bytes]) -> None:
        """Keep a rank's reports; what can't be read is dropped. Raises InfrastructureError when the disk is full."""
        messages = [message for line in lines if (message := self._read(line, rank)) is not None]
        if messages:
            self.put(*messages)
        for message in messages:
            self._learn(rank, message)

    def put(self, *messages: Upward) -> None:
        """Keep reports. Raises InfrastructureError when the disk is full."""
        try:
            with self.path.open("ab") as file:
                file.write(b"".join(map(write_line, messages)))
        except OSError as error:
            raise InfrastructureError(f"can't write {self.path}: {error.strerror}") from error

    def _learn(self, rank: int, message: Upward) -> None:
        match message:
            case Ready(pid=pid, step=step):
                self.ready[rank] = pid
                self.step = step
            case StepDone(step=step):
                self.step = step
            case Failed():
                self.failed.setdefault(rank, message)

    def _read(self, line: bytes, rank: int) -> Upward | None:
        try:
            return msgspec.structs.replace(read_upward(line), rank=rank, node=self.node)
        except InfrastructureError:
            return None
