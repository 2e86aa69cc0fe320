"""What a runner has of its ranks, whichever kind of job they belong to: the state of each, and ways to end them.

A crew makes its ranks ready (in a thread of the runner's, it may take long), starts them, is asked again and again
what became of them, and ends them. It must not know the server, nor why it is told to end.
"""

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter

import msgspec

from argosy.agent.folder import AttemptFolder, Task
from argosy.agent.reportfile import ReportFile
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import ArgosyError
from argosy.contracts.messages import Note
from argosy.contracts.talk import TEXT_CHARACTERS_MAX, HeldRank, Meeting

FULL = "the node's disk is full, and its log with it:"
NOTES_MAX = 20
"""How many lines of one pattern people are told of."""


class Crew(ABC):
    """Ranks of one generation on this node.

    meeting: where they meet those of other nodes, once it is known. failure_grace_s: how long the others have between
    SIGTERM and SIGKILL when one has failed.
    """

    failure_grace_s = 5.0

    def __init__(self, folder: AttemptFolder, task: Task) -> None:
        self.folder, self.task = folder, task
        self.ranks: dict[int, HeldRank] = {}
        self.meeting: Meeting | None = task.order.gang.meeting
        self.step: int | None = None
        self.reports = ReportFile(folder.reports, task.node)
        self._noted: Counter[str] = Counter()

    @abstractmethod
    def prepare(self) -> None:
        """Make all ready that ranks need. Raises ArgosyError."""

    @abstractmethod
    def start(self) -> None:
        """Start all ranks. Raises ArgosyError."""

    @abstractmethod
    def poll(self) -> None:
        """Take in what happened since."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to every rank that lives, and to what it started."""

    @abstractmethod
    def end(self) -> None:
        """Kill whatever is left and wait for it, a bounded time."""

    @abstractmethod
    def explain(self) -> None:
        """Find words for ranks that ended badly and said nothing, once patterns have had their turn."""

    @property
    @abstractmethod
    def at_work(self) -> bool:
        """Whether all ranks are at work."""

    def meet(self, meeting: Meeting) -> None:
        """Settle where ranks meet; other nodes wait for it, so the runner is woken to tell it at once."""
        self.meeting = meeting
        os.kill(os.getpid(), signal.SIGCHLD)

    def descriptors(self) -> list[int]:
        """Give what to wait on for news."""
        return []

    @property
    def living(self) -> list[HeldRank]:
        """List the ranks that have not ended."""
        return [rank for rank in self.ranks.values() if rank.code is None]

    def ended(self, number: int, code: int) -> None:
        """Note how a rank ended."""
        self._change(number, code=code, ended_us=time.time_ns() // 1000)

    def said(self, number: int, blame: str, text: str) -> None:
        """Note a rank's last words, or what its log says for it; the first that are noted count."""
        if number in self.ranks and not self.ranks[number].text:
            self._change(number, blame=blame, text=text[:TEXT_CHARACTERS_MAX])

    def logged_last(self, number: int, text: str) -> None:
        """Note what the end of a rank's log says; where it takes no more the rank may have failed for that alone."""
        if self.folder.takes_writes():
            self.said(number, "", text)
        else:
            self.said(number, INFRASTRUCTURE, f"{FULL} {self.folder.path}\n{text}".strip())

    def note(self, number: int, pattern: str, line: str) -> None:
        """Have people told of a line that a pattern looks for; of one that matches all the time, only so often."""
        self._noted[pattern] += 1
        if self._noted[pattern] > NOTES_MAX:
            return
        last = f"; {NOTES_MAX} such lines were told, others are not" if self._noted[pattern] == NOTES_MAX else ""
        with contextlib.suppress(ArgosyError):  # a full disk: the run is not to suffer
            self.reports.put(Note(rank=number, node=self.task.node, text=f"{line}{last}"))

    def _change(self, number: int, **fields: object) -> None:
        self.ranks[number] = msgspec.structs.replace(self.ranks[number], **fields)
