"""Ranks of `kind: run`: a command as processes of this node, each in a session of its own, its output in its log.

Knows nothing of frameworks; the environment it gives is that of `agent.environment`.
"""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from argosy.agent.bundles import unpack
from argosy.agent.crew import Crew
from argosy.agent.environment import rank_environment
from argosy.agent.folder import AttemptFolder, Task
from argosy.agent.host import free_port, gloo_environment
from argosy.agent.processes import descendants, die_with_parent, end_descendants, signal_group
from argosy.contracts.errors import BadInputError, InfrastructureError, UserCodeError
from argosy.contracts.talk import HeldRank, Meeting, StartRun

TAIL_BYTES = 32_000
TAIL_LINES = 4
LINE_CHARACTERS_MAX = 2000
ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception)\w*: \S.*")
"""How Python and many others say in one line why they end."""
SHELL = "/bin/sh"
NO_PROGRAM = frozenset(
    {errno.E2BIG, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOEXEC, errno.ENOTDIR, errno.EPERM}
)
"""What execve(2) says of the command, not of the machine."""


class CommandCrew(Crew):
    """The processes of a command on this node."""

    def __init__(self, folder: AttemptFolder, task: Task, order: StartRun) -> None:
        super().__init__(folder, task)
        self._order = order
        self._numbers: dict[int, int] = {}
        # Kept, for the next Popen would reap the process of one that is let go.
        self._started: list[subprocess.Popen[bytes]] = []
        self._directory = folder.work

    def prepare(self) -> None:
        """Choose where ranks meet, fetch uploaded code, find the working folder."""
        spec = self._order.spec
        if self.meeting is None:
            self.meet(Meeting(host=self.task.address, port=free_port(self.task.address)))
        if self._order.bundle:
            unpack(self.task.server, Path(self.task.state), self._order.bundle, self.folder.work)
            work = self.folder.work.resolve()
            self._directory = (work / (spec.working_directory or "")).resolve()
            if not self._directory.is_relative_to(work):
                raise BadInputError(f"working_directory: {spec.working_directory} is not within what was uploaded")
        elif spec.working_directory is not None:
            self._directory = Path(spec.working_directory).expanduser()
        else:
            self._directory.mkdir(exist_ok=True)
        if not self._directory.is_dir():
            raise BadInputError(f"working_directory: node {self.task.node} has no folder {self._directory}")

    def start(self) -> None:
        """Start every process."""
        for local_rank in range(self._order.gang.ranks):
            self._start_one(local_rank)

    def poll(self) -> None:
        """Reap what ended: ranks, and what they left behind."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self._numbers.pop(pid, None)
            if number is None:
                continue
            signal_group(pid, signal.SIGKILL)
            self.ended(number, os.waitstatus_to_exitcode(status))

    def explain(self) -> None:
        """Let the end of its log speak for a rank that left with a code and that nothing else speaks for."""
        for rank in self.ranks.values():
            if rank.code and rank.code > 0 and not rank.text:
                self.logged_last(rank.rank, self._last_lines(rank.rank))

    def signal(self, number: int) -> None:
        """Signal every rank's process group; to kill reaches those that left it, too."""
        for pid in self._numbers:
            signal_group(pid, number)
        if number == signal.SIGKILL:
            for process in descendants():
                process.kill()

    def end(self) -> None:
        """Kill whatever ranks left behind."""
        end_descendants()
        self.poll()

    @property
    def at_work(self) -> bool:
        """All processes are started: more isn't known of a command."""
        return len(self.ranks) == self._order.gang.ranks

    def _start_one(self, local_rank: int) -> None:
        order = self._order
        number = order.gang.first_rank + local_rank
        command = order.spec.command
        words = [SHELL, "-c", command[0]] if len(command) == 1 else list(command)
        with self._open_log(number) as log:
            process = self._start_process(words, self._environment(local_rank), log)
        self._started.append(process)
        self._numbers[process.pid] = number
        self.ranks[number] = HeldRank(rank=number, pid=process.pid)

    def _start_process(self, words: list[str], environment: dict[str, str], log: BinaryIO) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                words,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except FileNotFoundError as error:
            raise UserCodeError(f"command: node {self.task.node} has no program {words[0]!r}") from error
        except OSError as error:
            if error.errno in NO_PROGRAM:
                raise UserCodeError(f"command: {words[0]!r} can't be run: {error.strerror}") from error
            raise InfrastructureError(f"a rank can't be started: {error.strerror}") from error

    def _open_log(self, number: int) -> BinaryIO:
        try:
            return self.folder.log(number).open("ab")
        except OSError as error:
            raise InfrastructureError(f"the log of rank {number} can't be opened: {error.strerror}") from error

    def _environment(self, local_rank: int) -> dict[str, str]:
        meeting = self.meeting
        if meeting is None:
            raise InfrastructureError("ranks were started before it was known where they meet")
        # Programs of the agent's own Python, such as torchrun, are found after all others.
        path = os.pathsep.join(filter(None, (os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent))))
        base = {**gloo_environment(self.task.address), **os.environ, "PATH": path}
        folder = str(self.folder.path)
        return rank_environment(base, self._order, meeting, local_rank, node=self.task.node, folder=folder)

    def _last_lines(self, number: int) -> str:
        """Give the last error that a rank's log names, else its last lines."""
        try:
            with self.folder.log(number).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL_BYTES))
                text = log.read().decode(errors="replace").strip()
        except OSError:
            return ""
        errors = [line for line in text.splitlines() if ERROR_LINE.fullmatch(line[:LINE_CHARACTERS_MAX])]
        return errors[-1] if errors else "\n".join(text.splitlines()[-TAIL_LINES:])
