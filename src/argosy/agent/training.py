"""Ranks of `kind: train` on this node: data made ready, forked by the host's fork server, their reports kept in a file.

The runner's connection to the fork server holds the ranks: when it ends, so do they. Imports no torch.
"""

import dataclasses
from pathlib import Path

import msgspec

from argosy.agent.crew import Crew
from argosy.agent.folder import AttemptFolder, Task, board_path
from argosy.agent.forks import Forks
from argosy.agent.tokens import prepare_tokens
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import HeldRank, Meeting, StartTrain

BOARD_BYTES = 1 << 30
"""Size of the emulated clock's board: a hole in a file, which takes only the memory that ranks touch."""


class TrainCrew(Crew):
    """The ranks of a bound plan on this node."""

    # Survivors of a failure wait for the dead: there is nothing to save any more.
    failure_grace_s = 0.0

    def __init__(self, folder: AttemptFolder, task: Task, order: StartTrain) -> None:
        super().__init__(folder, task)
        self._order, self._launch = order, order.launch
        self._forks: Forks | None = None
        self._board: Path | None = None

    def prepare(self) -> None:
        """Reach the fork server, on node 0 open the store and the emulated clock's board, and make the tokens."""
        self._forks = forks = Forks(Path(self.task.fork_folder))
        first = self.meeting is None
        meeting = self.meeting or Meeting(host=self.task.address, port=forks.open_store(self.task.address))
        board = self._board_path(meeting, first) if self._launch.plan.emulated else ""
        if first:
            self.meet(meeting)  # other nodes make ready meanwhile
        self._launch = dataclasses.replace(
            self._launch,
            tokens=self._launch.tokens or prepare_tokens(self._launch, self.folder.logs / "data.log"),
            store_host=meeting.host,
            store_port=meeting.port,
            directory=self._launch.directory or str(self.folder.path),
            board=board,
            save_on_stop=True,
        )

    def start(self) -> None:
        """Fork every rank."""
        forks = self._opened()
        forks.load(self._launch)
        # CPU cores are shared among ranks; the host's threads beside real chips are not.
        shared = self._order.gang.world_size > 1 and not set(self._launch.devices.values()) - {"cpu"}
        for number in self._order.ranks:
            self.ranks[number] = HeldRank(rank=number)
            forks.fork(number, self.folder.log(number), threads=1 if shared else 0)

    def poll(self) -> None:
        """Take in what ranks report and how they end."""
        forks = self._opened()
        for number, lines in forks.reports().items():
            self.reports.take(number, lines)
        for ended in forks.ended():
            self.reports.take(ended.rank, ended.last)
            if failed := self.reports.failed.get(ended.rank):
                self.said(ended.rank, failed.blame, failed.text)
            elif ended.text:
                self.said(ended.rank, INFRASTRUCTURE, ended.text)
            self.ended(ended.rank, ended.code)
        self.step = self.reports.step
        for number, pid in self.reports.ready.items():
            if not self.ranks[number].pid:
                self.ranks[number] = msgspec.structs.replace(self.ranks[number], pid=pid)

    def signal(self, number: int) -> None:
        """Have the fork server signal them."""
        self._opened().signal(number)

    def end(self) -> None:
        """Hang up on the fork server, which kills what is left."""
        if self._forks is not None:
            self._forks.close()
        if self._board is not None:
            self._board.unlink(missing_ok=True)

    def explain(self) -> None:
        """Leave it at their own last words."""

    @property
    def at_work(self) -> bool:
        """Every rank has its groups, model and data."""
        return len(self.reports.ready) == len(self._order.ranks)

    def descriptors(self) -> list[int]:
        """Give the fork server's connection and the ranks' pipes."""
        return self._forks.descriptors() if self._forks is not None and self.ranks else []

    def _opened(self) -> Forks:
        if self._forks is None:
            raise InfrastructureError("the fork server is not reached yet")
        return self._forks

    def _board_path(self, meeting: Meeting, first: bool) -> str:
        """Place the emulated clock's board, which all ranks share, so all on one host; node 0 makes it."""
        path = board_path(meeting.port)
        if not first:
            if not path.exists():
                raise InfrastructureError("emulated chips of one job must be on one host: their clock is in its memory")
            return str(path)
        try:
            self._board = path
            path.unlink(missing_ok=True)
            with path.open("xb") as file:
                file.truncate(BOARD_BYTES)
        except OSError as error:
            raise InfrastructureError(f"can't make the emulated clock's board {path}: {error.strerror}") from error
        return str(path)
