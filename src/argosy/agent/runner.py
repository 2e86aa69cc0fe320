"""The runner: a small process that has the ranks of one generation on one node, from their start to their end.

`python -m argosy.agent.runner FOLDER`. It outlives the agent, and tells it all through the folder. It ends its ranks
when the folder says so, or when the node's lease has run out: then nobody may count on what they do. It must not know
the server, but for fetching uploaded code.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from argosy.agent.crew import Crew
from argosy.agent.crews import make_crew
from argosy.agent.folder import LOCK_NAME, AttemptFolder, Lease, Standing, StopWish, Task, take_lock
from argosy.agent.logwatch import LogWatch
from argosy.agent.processes import adopt_orphans, end_descendants
from argosy.contracts.blame import INFRASTRUCTURE, blame_of
from argosy.contracts.errors import ArgosyError
from argosy.contracts.talk import ENDED, RUNNING, STARTING, STOPPED, TEXT_CHARACTERS_MAX, Held, StartRun

TICK_S = 0.25
SETTLE_S = 3.0
"""How long the other ranks may go on after the first that failed."""
LAST_WORDS_S = 600.0
PUBLISH_S = 1.0
"""How often figures that change all the time are written."""
LOCK_TRIES = 20
PARKED = "parked: no word from the server until the lease ran out, so others may have taken over"


class Runner:
    """One generation's ranks on this node."""

    def __init__(self, folder: AttemptFolder, task: Task, crew: Crew) -> None:
        self._folder, self._task, self._crew = folder, task, crew
        self._lease = Lease(Path(task.state) / "lease")
        self._held = Held(attempt=task.order.attempt, generation=task.order.generation, state=STARTING)
        self._published: Standing | None = None
        self._published_s = 0.0
        self._watch: LogWatch | None = None
        self._stopping = self._parked = False
        self._wish: StopWish | None = None
        self._kill_at_s: float | None = None
        self._settle_at_s: float | None = None
        self._blame = self._text = ""
        self._failed: BaseException | None = None
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> int:
        """Run the ranks to their end; returns the exit code of this process."""
        self._publish(STARTING)
        try:
            if self._prepare():
                self._start()
                while self._crew.living:
                    self._turn()
        except ArgosyError as error:
            self._fail(error)
        except Exception as error:  # a bug of ours must be told, and leaves no rank behind
            self._fail(error)
            raise
        finally:
            self._crew.end()
            end_descendants()
            self._last_words(STOPPED if self._stopping else ENDED)
        return 0

    def _prepare(self) -> bool:
        """Have the crew make all ready, and watch meanwhile; False where it is to end before."""
        thread = threading.Thread(target=self._prepare_crew, daemon=True)
        thread.start()
        while thread.is_alive():
            self._rest()
            self._publish(STARTING)
            if self._must_end():
                self._stopping = True
                return False
        if self._failed is not None:
            raise self._failed
        return True

    def _prepare_crew(self) -> None:
        try:
            self._crew.prepare()
        except BaseException as error:
            self._failed = error
        finally:
            os.kill(os.getpid(), signal.SIGCHLD)  # wakes the loop

    def _start(self) -> None:
        order = self._task.order
        if isinstance(order, StartRun):
            ranks = range(order.gang.first_rank, order.gang.first_rank + order.gang.ranks)
            self._watch = LogWatch(self._folder, ranks, order.spec.log_patterns, order.spec.hang)
        else:
            self._watch = LogWatch(self._folder, order.ranks)
        self._crew.start()
        self._publish(RUNNING if self._crew.at_work else STARTING)

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        self._rest()
        self._crew.poll()
        self._look()
        self._crew.explain()
        now_s = time.monotonic()
        if self._must_end():
            self._end_early(now_s)
        failed = any(rank.code for rank in self._crew.ranks.values())
        if failed and self._settle_at_s is None:
            self._settle_at_s = now_s + SETTLE_S
        if self._settle_at_s is not None and now_s >= self._settle_at_s and self._kill_at_s is None:
            self._end_ranks(self._crew.failure_grace_s)
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            self._crew.signal(signal.SIGKILL)
        self._publish(RUNNING if self._crew.at_work else STARTING)

    def _rest(self) -> None:
        readable, _, _ = select.select([self._wake, *self._crew.descriptors()], [], [], TICK_S)
        if self._wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)

    def _must_end(self) -> bool:
        """Tell whether somebody wants the ranks to end, or nobody may count on them any more."""
        if time.monotonic() >= self._lease.deadline_s():
            self._parked, self._blame, self._text = True, INFRASTRUCTURE, PARKED
            return True
        return self._folder.stop_wish() is not None

    def _end_early(self, now_s: float) -> None:
        """End the ranks as somebody wishes; asked again, the earlier end counts."""
        wish = None if self._parked else self._folder.stop_wish()
        if not self._stopping:
            self._stopping = True
            self._end_ranks(wish.grace_s if wish else 0.0)
        elif wish != self._wish and self._kill_at_s is not None:
            self._kill_at_s = min(self._kill_at_s, now_s + (wish.grace_s if wish else 0.0))
        self._wish = wish

    def _end_ranks(self, grace_s: float) -> None:
        """Ask all ranks to end; what is left after the grace is killed."""
        self._kill_at_s = time.monotonic() + grace_s
        self._crew.signal(signal.SIGTERM if grace_s > 0 else signal.SIGKILL)

    def _look(self) -> None:
        """Let what the logs say count for their ranks."""
        if self._watch is None:
            return
        for match in self._watch.look():
            if match.pattern.means != "note":
                self._crew.said(match.rank, match.pattern.means, match.line)
            else:
                self._crew.note(match.rank, match.pattern.match, match.line)
            if match.pattern.stop and self._kill_at_s is None:
                self._blame = match.pattern.means if match.pattern.means != "note" else "user"
                self._text = f"rank {match.rank}: a log pattern that stops: {match.line}"
                self._end_ranks(self._crew.failure_grace_s)

    def _last_words(self, state: str) -> None:
        """Say how it ended, also once a full disk takes it again: without, it would count as a failure."""
        self._look()
        self._crew.explain()
        deadline_s = time.monotonic() + LAST_WORDS_S
        self._publish(state)
        while not self._told(state) and self._folder.path.exists() and time.monotonic() < deadline_s:
            time.sleep(PUBLISH_S)
            self._publish(state)

    def _told(self, state: str) -> bool:
        return self._published is not None and self._published.held.state == state

    def _fail(self, error: BaseException) -> None:
        self._blame, self._text = blame_of(error), str(error)[:TEXT_CHARACTERS_MAX]
        _say(str(error))

    def _publish(self, state: str) -> None:
        """Write how things stand if that is news, and wake the agent; a full disk is tried again."""
        now_s = time.monotonic()
        watch = self._watch
        steady = Held(
            attempt=self._held.attempt,
            generation=self._held.generation,
            state=state,
            ranks=tuple(self._crew.ranks.values()),
            meeting=self._crew.meeting,
            parked=self._parked,
            blame=self._blame,
            text=self._text,
        )
        if steady == self._held and self._published and now_s < self._published_s + PUBLISH_S:
            return
        standing = Standing(
            held=msgspec.structs.replace(steady, step=self._crew.step),
            output_us=watch.output_us if watch and watch.hang.no_output_for_s is not None else 0,
            mark_us=watch.mark_us if watch and watch.hang.no_step_for_s is not None else 0,
        )
        if standing == self._published:
            return
        try:
            self._folder.publish(standing)
        except OSError as error:
            _say(f"can't write how things stand: {error}")
            return
        self._held, self._published, self._published_s = steady, standing, now_s
        poke(Path(self._task.state))


def _say(text: str) -> None:
    """Write to the runner's own log, if the disk takes it."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def poke(state: Path) -> None:
    """Wake the agent, if there is one."""
    with contextlib.suppress(OSError):
        descriptor = os.open(state / "wake", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the task in a folder says; returns the exit code."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    folder = AttemptFolder(Path(path))
    for _ in range(LOCK_TRIES):
        if (lock := take_lock(folder.path / LOCK_NAME)) is not None:
            break
        time.sleep(TICK_S / LOCK_TRIES)
    else:
        return 0  # another runner has it
    try:
        adopt_orphans()
        task = folder.task()
        return Runner(folder, task, make_crew(folder, task)).run()
    except ArgosyError as error:
        _say(str(error))
        return error.exit_code
    finally:
        os.close(lock)


if __name__ == "__main__":
    sys.exit(main())
