"""What an agent keeps: the generations on its node, each with a folder and a runner; orders are obeyed here.

One thread alone calls it. What is held is read from the folders, so a new agent process goes on where the last one
was. What another service left is ended, and told to nobody. Must not know how orders come or reports go.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from argosy.agent.folder import AttemptFolder, Lease, Standing, StopWish, Task, attempt_path, board_path, write_whole
from argosy.agent.outgoing import Outgoing
from argosy.agent.processes import end_left, left_behind, without_ours
from argosy.agent.readlog import read_log
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import ArgosyError, InfrastructureError
from argosy.contracts.fencing import Fence, Stamp
from argosy.contracts.talk import (
    ENDED,
    STARTING,
    STOPPED,
    AnyOrder,
    Forget,
    Held,
    ReadLog,
    StartRun,
    StartTrain,
    StopAttempt,
)

LOG = logging.getLogger("argosy.agent")
RUNNER_MODULE = "argosy.agent.runner"
RUNNER_START_S = 30.0
OVERDUE_S = 10.0
"""How much longer than a stop's grace a runner may take before it is killed itself."""
LATE_S = 5.0
"""How long after the lease a runner may still have ranks before it is killed itself."""
FOLDERS_KEPT = 100
SERVICES_KEPT = 2
"""Of how many former services attempts' logs are kept."""
RESTORED = "; where the server's store was put back from an older copy, begin it once by `argosy up --restored`"
KILLED = "its runner was killed, and its ranks with it"


@dataclass(slots=True, kw_only=True)
class Holding:
    """One generation on this node. folder: None where nothing of it was ever started here.

    failure: why it could not be started. runner: as a child of this process. kill_at_s: when a runner that was told to
    stop is killed. late_s: since when it runs on without a lease, as far as this process saw.
    """

    attempt: str
    generation: int
    folder: AttemptFolder | None = None
    failure: str = ""
    runner: "subprocess.Popen[bytes] | None" = None
    begun_s: float = 0.0
    kill_at_s: float | None = None
    late_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where this agent is.

    state: its folder. home: what is of its service there. address: where other nodes reach it. server: URL.
    """

    state: Path
    home: Path
    node: str
    address: str
    server: str
    fork_folder: Path


class Keeper:
    """All that is on this node. outgoing: where reports go."""

    def __init__(self, place: Place, outgoing: Outgoing) -> None:
        self._place, self._outgoing = place, outgoing
        self._lease = Lease(place.state / "lease")
        self._fence = self._read_fence()
        self._fence_kept = b""
        self._holdings: dict[str, Holding] = {}
        self._former = self._left_by_others()
        self._recall()

    def obey(self, order: AnyOrder) -> None:
        """Do what an order says, unless it is old; one that comes again changes nothing.

        Raises BadInputError for an attempt that can't be one's name.
        """
        folder = self._folder_of(order.attempt, order.generation)
        if isinstance(order, ReadLog):
            self._outgoing.log_part(order.id, lambda number: read_log(order, folder, number))
            return
        if isinstance(order, Forget):
            self._forget(order)
            return
        stops = isinstance(order, StopAttempt)
        stamp = Stamp(term=order.term, attempt=order.attempt, generation=order.generation, stops=stops)
        if refusal := self._fence.refusal(stamp):
            self._outgoing.refused(order.id, order.attempt, refusal if stops else refusal + RESTORED)
            return
        unwritten = self._keep_fence()
        if isinstance(order, StopAttempt):
            self._stop(order)
        else:
            self._start(order, unwritten)

    def held(self) -> tuple[Held, ...]:
        """Say all that is held, and see to runners that died or are overdue."""
        self._former = [holding for holding in self._former if not self._is_over(holding)]
        return tuple(self._held_of(holding) for holding in list(self._holdings.values()))

    def take_reports(self) -> None:
        """Hand on what ranks reported since."""
        for holding in self._holdings.values():
            if holding.folder is not None:
                self._outgoing.take(holding.attempt, holding.generation, holding.folder)

    @property
    def busy(self) -> bool:
        """Whether ranks run, or may."""
        return any(self._lives(holding) for holding in (*self._holdings.values(), *self._former))

    def _start(self, order: StartTrain | StartRun, failure: str) -> None:
        """Start a generation, unless it is here already. failure: why it can't be; empty where it can."""
        known = self._holdings.get(order.attempt)
        if known is not None and known.generation >= order.generation:
            return
        if known is not None and self._lives(known):
            # A newer generation ends the older one; the order comes again, for the server sees that nothing began.
            self._wish_stop(known, StopWish(reason="a newer generation", grace_s=0.0))
            return
        others = [name for name, one in self._holdings.items() if name != order.attempt and self._has_ranks(one)]
        others += [f"{one.attempt} of another service" for one in self._former]
        if others:
            self._outgoing.refused(order.id, order.attempt, f"{', '.join(others)} still runs on {self._place.node}")
            return
        holding = Holding(attempt=order.attempt, generation=order.generation, begun_s=time.monotonic(), failure=failure)
        self._holdings[order.attempt] = holding
        if failure:
            return
        LOG.info("start %s, generation %d", order.attempt, order.generation)
        try:
            folder = self._folder_of(order.attempt, order.generation)
            folder.begin(self._task(order))
            holding.folder = folder
            holding.runner = start_runner(folder)
        except ArgosyError as error:
            holding.failure = str(error)

    def _task(self, order: StartTrain | StartRun) -> Task:
        place = self._place
        return Task(
            order=order,
            node=place.node,
            address=place.address,
            state=str(place.state),
            fork_folder=str(place.fork_folder),
            server=place.server,
        )

    def _stop(self, order: StopAttempt) -> None:
        holding = self._holdings.get(order.attempt)
        if holding is not None and self._lives(holding):
            if holding.generation <= order.generation:
                self._wish_stop(holding, StopWish(reason=order.reason, grace_s=order.grace_s))
        elif holding is None or holding.generation < order.generation:
            # Nothing of that generation ever ran here, and nothing will.
            self._holdings[order.attempt] = Holding(attempt=order.attempt, generation=order.generation)

    def _wish_stop(self, holding: Holding, wish: StopWish) -> None:
        """Ask a runner to end; asked again, a shorter grace counts."""
        if holding.folder is None:
            return
        kill_at_s = time.monotonic() + wish.grace_s + OVERDUE_S
        if holding.kill_at_s is not None and kill_at_s >= holding.kill_at_s:
            return
        holding.kill_at_s = kill_at_s
        LOG.info("stop %s, generation %d: %s", holding.attempt, holding.generation, wish.reason)
        with contextlib.suppress(OSError):  # a full disk: the runner is killed when it is overdue
            holding.folder.wish_stop(wish)
        if pid := holding.folder.runner_pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _forget(self, order: Forget) -> None:
        holding = self._holdings.get(order.attempt)
        if holding is None or holding.generation > order.generation or self._lives(holding):
            return
        del self._holdings[order.attempt]
        with contextlib.suppress(OSError):
            for path in self._folder_of(order.attempt, order.generation).path.parent.iterdir():
                if path.name.isdecimal() and int(path.name) <= order.generation:
                    write_whole(path / "forgotten", b"")
            self._tidy()

    def _held_of(self, holding: Holding) -> Held:
        closed = self._fence.closed.get(holding.attempt, -1) >= holding.generation
        over = STOPPED if closed else ENDED
        bare = Held(attempt=holding.attempt, generation=holding.generation, state=over)
        if holding.failure:
            return msgspec.structs.replace(bare, blame=INFRASTRUCTURE, text=holding.failure)
        if holding.folder is None:
            return bare
        held = holding.folder.held() or msgspec.structs.replace(bare, state=STARTING)
        if held.state not in (ENDED, STOPPED):
            if self._lives(holding):
                self._kill_overdue(holding, holding.folder, held)
                return held
            held = self._bury(holding, holding.folder)
            if held.state not in (ENDED, STOPPED):
                return held
        if held.parked and not closed:
            self._close(holding)
            over = STOPPED
        return msgspec.structs.replace(held, state=over)

    def _lives(self, holding: Holding) -> bool:
        """Tell whether a runner has it, or is about to."""
        if holding.folder is None or holding.failure:
            return False
        if holding.folder.runner_pid():
            return True
        if holding.runner is not None and holding.runner.poll() is None:
            return time.monotonic() < holding.begun_s + RUNNER_START_S
        return False

    def _has_ranks(self, holding: Holding) -> bool:
        """Tell whether it may still have ranks: a runner that said how they ended is only leaving."""
        if holding.folder is None or not self._lives(holding):
            return False
        held = holding.folder.held()
        return held is None or held.state not in (ENDED, STOPPED)

    def _kill_overdue(self, holding: Holding, folder: AttemptFolder, held: Held) -> None:
        """Kill a runner that doesn't carry out a stop, or doesn't park its ranks: it may be held up."""
        now_s = time.monotonic()
        if now_s < self._lease.deadline_s():
            holding.late_s = None
        elif holding.late_s is None:
            holding.late_s = now_s
        overdue = holding.kill_at_s is not None and now_s >= holding.kill_at_s
        late = holding.late_s is not None and now_s >= holding.late_s + LATE_S
        if not overdue and not late:
            return
        # Late, but without ranks, it may still wait for room on its disk to say how they ended.
        if not overdue and not left_behind(str(folder.path), [rank.pid for rank in held.ranks]):
            return
        if pid := folder.runner_pid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _bury(self, holding: Holding, folder: AttemptFolder) -> Held:
        """See to it that a runner that died left nothing behind, and write down that it ended."""
        before = folder.held() or Held(attempt=holding.attempt, generation=holding.generation, state=STARTING)
        if before.state in (ENDED, STOPPED):
            return before
        if not end_left(str(folder.path), [rank.pid for rank in before.ranks]):
            return before  # something can't be killed yet; the next look tries again
        with contextlib.suppress(ArgosyError, OSError):
            if before.meeting is not None and folder.task().order.gang.node_rank == 0:
                board_path(before.meeting.port).unlink(missing_ok=True)
        parked = holding.late_s is not None
        held = msgspec.structs.replace(before, state=ENDED, blame=INFRASTRUCTURE, text=KILLED, parked=parked)
        with contextlib.suppress(OSError):
            folder.publish(Standing(held=held))
        return held

    def _close(self, holding: Holding) -> None:
        """Close a generation without having been told to: its ranks were parked, and it is never to run again."""
        self._fence.closed[holding.attempt] = max(self._fence.closed.get(holding.attempt, -1), holding.generation)
        self._keep_fence()

    def _folder_of(self, attempt: str, generation: int) -> AttemptFolder:
        return AttemptFolder(attempt_path(self._place.home, attempt, generation))

    def _left_by_others(self) -> list[Holding]:
        """Find what other services left running here, and drop the folders of all but the last few of them."""
        homes = [home for home in self._place.home.parent.glob("*") if home != self._place.home]
        found = [holding for home in homes for holding in _unended(home)]
        for holding in found:
            # Also where no runner has it yet: one that was just started finds the wish.
            self._wish_stop(holding, OF_ANOTHER)
        used = {holding.folder.path.parents[2] for holding in found if holding.folder is not None}
        idle = sorted((home for home in homes if home not in used), key=lambda home: home.stat().st_mtime)
        for home in idle[:-SERVICES_KEPT]:
            shutil.rmtree(home, ignore_errors=True)
        return found

    def _is_over(self, holding: Holding) -> bool:
        """End what another service left: its chips are this one's to give, and nobody else can end it any more."""
        folder = holding.folder
        if folder is None or not self._lives(holding):
            return folder is None or self._bury(holding, folder).state in (ENDED, STOPPED)
        if (held := folder.held()) is not None:
            self._kill_overdue(holding, folder, held)
        return False

    def _recall(self) -> None:
        """Find what former processes of this agent left: the newest generation of each attempt not forgotten."""
        for path in sorted((self._place.home / "attempts").glob("*/*")):
            folder = AttemptFolder(path)
            if not path.name.isdecimal() or not (path / "task").exists() or (path / "forgotten").exists():
                continue
            generation = int(path.name)
            before = self._holdings.get(path.parent.name)
            if before is not None and before.generation > generation:
                self._wish_stop(Holding(attempt=path.parent.name, generation=generation, folder=folder), AT_ONCE)
                continue
            holding = Holding(attempt=path.parent.name, generation=generation, folder=folder)
            if before is not None:
                self._wish_stop(before, AT_ONCE)
            self._holdings[holding.attempt] = holding
            if folder.held() is None and not folder.runner_pid():
                # The task was written and nothing began: the last process ended just between.
                holding.begun_s = time.monotonic()
                try:
                    holding.runner = start_runner(folder)
                except InfrastructureError as error:
                    holding.failure = str(error)

    def _tidy(self) -> None:
        """Remove the oldest folders that are forgotten, beyond those that are kept for their logs."""
        forgotten = sorted((self._place.home / "attempts").glob("*/*/forgotten"), key=lambda path: path.stat().st_mtime)
        for path in forgotten[:-FOLDERS_KEPT]:
            shutil.rmtree(path.parent, ignore_errors=True)
            with contextlib.suppress(OSError):
                path.parent.parent.rmdir()

    def _read_fence(self) -> Fence:
        try:
            return msgspec.json.decode((self._place.home / "fence").read_bytes(), type=Fence)
        except (OSError, msgspec.MsgspecError):
            return Fence()

    def _keep_fence(self) -> str:
        """Keep the fence for the next process, if it has changed; says why it can't be kept.

        Nothing may start that the next process would not know of; what is to end ends all the same.
        """
        data = msgspec.json.encode(self._fence)
        if data == self._fence_kept:
            return ""
        try:
            self._place.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self._place.home / "fence", data)
        except OSError as error:
            return f"can't write {self._place.home / 'fence'}: {error.strerror}"
        self._fence_kept = data
        return ""


AT_ONCE = StopWish(reason="an older generation", grace_s=0.0)
OF_ANOTHER = StopWish(reason="another service began it, which this node has left", grace_s=10.0)


def _unended(home: Path) -> Iterator[Holding]:
    """Find the generations of a service that have not ended, or that nobody saw end."""
    for path in home.glob("attempts/*/*"):
        folder = AttemptFolder(path)
        if not path.name.isdecimal() or not (path / "task").exists() or (path / "forgotten").exists():
            continue
        held = folder.held()
        if folder.runner_pid() or held is None or held.state not in (ENDED, STOPPED):
            yield Holding(attempt=path.parent.name, generation=int(path.name), folder=folder)


def start_runner(folder: AttemptFolder) -> "subprocess.Popen[bytes]":
    """Start the runner of a folder, in a session of its own. Raises InfrastructureError."""
    try:
        with (folder.logs / "runner.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", RUNNER_MODULE, str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_ours(os.environ),
                start_new_session=True,
            )
    except OSError as error:
        raise InfrastructureError(f"can't start a runner in {folder.path}: {error.strerror}") from error
