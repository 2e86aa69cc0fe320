"""The loop: one commit for what waits together, commands after it, and nothing that was not written."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.event import FleetDescribed, JobSubmitted, StopAsked, TimeReached
from argosy.contracts.fleet import Node
from argosy.contracts.request import Claim, Pool
from argosy.control import log
from argosy.control.snapshot import snapshot
from argosy.server.loop import Loop
from argosy.server.store import Statement, Store, put_about

POOL = Pool(name="north/a", kind="a", site="north", chips_per_node=8)
NODE = Node(name="north-1", site="north", chip_class="north/a", chips=8)


class Stubborn(Store):
    """A store that refuses commits while it is told to."""

    refuses = False
    commits = 0

    def commit(self, lines: Any, statements: Any = ()) -> None:
        """Commit, or say that the disk is full."""
        if self.refuses:
            raise InfrastructureError("the disk is full")
        super().commit(lines, statements)
        self.commits += 1


def no_annals(_state: object, _record: object) -> tuple[Statement, ...]:
    """Write nothing beside the log."""
    return ()


@pytest.fixture
def begin(tmp_path: Path) -> Any:
    """Begin loops on one store, one after the other; the last is closed at the end."""
    loops: list[Loop] = []

    def one(heard: Callable[[Any], None] = lambda _committed: None, clock: Callable[[], int] | None = None) -> Loop:
        for loop in loops:
            loop.close()
        loops.clear()
        store = Stubborn(tmp_path / "store.sqlite")
        loop = Loop(store, annals=no_annals, heard=heard, **({"clock_us": clock} if clock else {}))
        loops.append(loop)
        loop.start()
        return loop

    yield one
    for loop in loops:
        loop.close()


def submit(loop: Loop, queue: str = "default") -> Any:
    """Hand a job in."""
    return loop.send(JobSubmitted, claim=Claim(name="j", queue=queue)).result(30)


def jobs(loop: Loop) -> list[str]:
    """List the jobs that are known."""
    return loop.ask(lambda state: list(state.jobs)).result(30)


class TestEvents:
    def test_a_record_comes_back_once_it_is_on_disk(self, begin: Any) -> None:
        """The future's record is the last line of the log."""
        loop = begin()
        record = submit(loop)
        assert log.read_record(loop._store.recall()[1][record.event.seq - 1]) == record

    def test_each_server_has_a_term_of_its_own(self, begin: Any) -> None:
        """A new one begins where the last ended, one term later."""
        first = begin()
        submit(first)
        before = jobs(first)
        second = begin()
        assert second.term == 2
        assert jobs(second) == before

    def test_a_bad_event_changes_nothing(self, begin: Any) -> None:
        """It is refused with the core's own words, and the next one is handled."""
        loop = begin()
        bad = loop.send(JobSubmitted, claim=Claim(name="j", queue="default", priority=2**50))
        with pytest.raises(BadInputError, match="priority must be from"):
            bad.result(30)
        submit(loop)
        assert len(jobs(loop)) == 1

    def test_events_that_wait_share_a_commit(self, begin: Any) -> None:
        """Twenty jobs handed in while the loop is busy are one commit, in the order they came."""
        loop = begin()
        hold, held = threading.Event(), threading.Event()
        loop.ask(lambda _state: (held.set(), hold.wait(30)))
        held.wait(30)
        sent = [loop.send(JobSubmitted, claim=Claim(name=f"j{n}", queue="default")) for n in range(20)]
        before = loop._store.commits
        hold.set()
        numbers = [future.result(30).event.seq for future in sent]
        assert numbers == sorted(numbers)
        assert loop._store.commits - before <= 2

    def test_writes_go_with_their_event(self, begin: Any) -> None:
        """What is written along is there exactly when the record is."""
        loop = begin()

        def along(_state: Any, record: Any) -> list[Statement]:
            return [put_about("job", str(record.event.seq))]

        record = loop.send(JobSubmitted, along=along, claim=Claim(name="j", queue="default")).result(30)
        assert loop._store.about("job") == str(record.event.seq)

    def test_time_does_not_go_back(self, begin: Any) -> None:
        """A clock that jumps back stands still in the log."""
        times = iter([1_000_000, 500_000, 400_000])
        loop = begin(clock=lambda: next(times, 300_000))
        assert submit(loop).event.now_us == 1_000_000

    def test_a_timer_comes_due_by_itself(self, begin: Any) -> None:
        """A lease that runs out is seen without anybody sending anything."""
        seen = threading.Event()
        clock = [1_000_000]

        def heard(committed: Any) -> None:
            if isinstance(committed.record.event, TimeReached):
                seen.set()

        loop = begin(heard=heard, clock=lambda: clock[0])
        loop.send(FleetDescribed, pools=(POOL,), nodes=(NODE,)).result(30)
        submit(loop)
        clock[0] += 10**12
        loop.ask(lambda state: state.timers.append((2_000_000, "pass", ""))).result(30)
        assert seen.wait(30)


class TestStoreRefuses:
    def test_what_was_not_written_did_not_happen(self, begin: Any) -> None:
        """The event fails with the store's words, the state is as it was, and it works again after."""
        loop = begin()
        submit(loop)
        before = loop.ask(snapshot).result(30)
        loop._store.refuses = True
        with pytest.raises(InfrastructureError, match="the disk is full"):
            submit(loop)
        assert loop.ask(snapshot).result(30) == before
        with pytest.raises(InfrastructureError, match="the disk is full"):
            loop.write(put_about("a", "b")).result(30)
        loop._store.refuses = False
        submit(loop)
        assert len(jobs(loop)) == 2

    def test_trouble_is_told_until_the_store_takes_writes(self, begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """While the disk was full the service's status said that all was well; it says why, also with nothing to do."""
        monkeypatch.setattr("argosy.server.loop.AGAIN_S", 0.01)
        monkeypatch.setattr("argosy.server.loop.IDLE_S", 0.01)
        loop = begin()
        assert loop.trouble == ""
        loop._store.refuses = True
        with pytest.raises(InfrastructureError):
            submit(loop)
        assert loop.trouble == "the disk is full"
        loop._store.refuses = False
        for _ in range(1000):
            if not loop.trouble:
                break
            loop.ask(lambda _state: threading.Event().wait(0.01)).result(30)
        assert loop.trouble == ""

    def test_commands_of_what_was_not_written_stay_in(self, begin: Any) -> None:
        """Nobody is told of a record that is not on disk."""
        heard: list[Any] = []
        loop = begin(heard=lambda committed: heard.append(committed.record.event))
        loop._store.refuses = True
        with pytest.raises(InfrastructureError):
            loop.send(StopAsked, job="job-1").result(30)
        assert StopAsked not in map(type, heard)

    def test_a_listener_that_fails_does_not_stop_the_loop(self, begin: Any) -> None:
        """What it missed is compared again later; the loop goes on."""

        def heard(_committed: Any) -> None:
            raise ValueError("a bug")

        loop = begin(heard=heard)
        submit(loop)
        assert len(jobs(loop)) == 1

    def test_one_event_that_fails_takes_no_other_along(self, begin: Any) -> None:
        """Those that waited with it are handled all the same."""
        loop = begin()
        hold, held = threading.Event(), threading.Event()
        loop.ask(lambda _state: (held.set(), hold.wait(30)))
        held.wait(30)

        def bug(_state: Any, _record: Any) -> list[Statement]:
            raise ZeroDivisionError("a bug")

        claim = Claim(name="j", queue="default")
        sent = [loop.send(JobSubmitted, claim=claim, along=along) for along in (None, bug, None)]
        hold.set()
        sent[0].result(30)
        with pytest.raises(InfrastructureError, match="a bug"):
            sent[1].result(30)
        sent[2].result(30)
        assert len(jobs(loop)) == 2

    def test_a_loop_that_cannot_go_on_ends_the_process(self, tmp_path: Path, monkeypatch: Any) -> None:
        """A store that can't be read any more is asked again for a while; then nothing would be answered."""
        monkeypatch.setattr("argosy.server.loop.AGAIN_S", 0.0)
        ended = threading.Event()
        store = Stubborn(tmp_path / "store.sqlite")
        loop = Loop(store, annals=no_annals, heard=lambda _committed: None, end=ended.set)
        loop.start()

        def unreadable() -> Any:
            raise InfrastructureError("the disk is gone")

        monkeypatch.setattr(store, "recall", unreadable)
        store.refuses = True
        loop.send(JobSubmitted, claim=Claim(name="j", queue="default"))
        assert ended.wait(30)
        loop.close()


class TestQuestions:
    def test_one_who_goes_away_does_no_harm(self, begin: Any) -> None:
        """A request that is given up while the loop is busy is answered all the same; the loop goes on."""
        loop = begin()

        async def story() -> None:
            hold = threading.Event()
            loop.ask(lambda _state: hold.wait(30))
            question = asyncio.wrap_future(loop.ask(lambda _state: 1))
            event = asyncio.wrap_future(loop.send(JobSubmitted, claim=Claim(name="j", queue="default")))
            question.cancel()
            event.cancel()
            await asyncio.wait([question, event])
            hold.set()
            assert await asyncio.wrap_future(loop.ask(lambda state: len(state.jobs))) == 1

        asyncio.run(story())
        assert len(jobs(loop)) == 1

    def test_a_question_sees_what_was_committed(self, begin: Any) -> None:
        """Asked after an event, it sees the event."""
        loop = begin()
        sent = loop.send(JobSubmitted, claim=Claim(name="j", queue="default"))
        asked = loop.ask(lambda state: len(state.jobs))
        sent.result(30)
        assert asked.result(30) == 1

    def test_after_the_end_nobody_waits_for_an_answer(self, begin: Any) -> None:
        """What comes once the loop closes is refused at once; what came before is answered."""
        loop = begin()
        before = loop.ask(lambda _state: 1)
        loop.close()
        assert before.result(0) == 1
        for late in (loop.ask(lambda _state: 1), loop.send(JobSubmitted, claim=Claim(name="j", queue="default"))):
            with pytest.raises(InfrastructureError, match="the service is ending"):
                late.result(0)

    def test_an_error_goes_to_who_asked(self, begin: Any) -> None:
        """The loop itself goes on."""
        loop = begin()
        with pytest.raises(ZeroDivisionError):
            loop.ask(lambda _state: 1 // 0).result(30)
        submit(loop)
