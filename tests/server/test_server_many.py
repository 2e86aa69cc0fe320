"""What keeps a server of very many agents quick: waits, questions and bodies put together, and the collector tended."""

import asyncio
import gc
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain, repeat
from typing import Any

import pytest

from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import JOIN_PATH
from argosy.server import bells, process, tidy, together
from argosy.server.api import agents
from argosy.server.bells import Bell, Waits
from argosy.server.together import Together
from support.serving import turns, wait


class Slow:
    """A loop that answers when it is told to. lots: questions that wait."""

    def __init__(self) -> None:
        self.lots: list[tuple[Callable[[Any], Any], Future[Any]]] = []

    def ask(self, question: Callable[[Any], Any]) -> "Future[Any]":
        """Take a question."""
        future: Future[Any] = Future()
        self.lots.append((question, future))
        return future

    def answer(self, state: Any = None) -> None:
        """Answer the oldest."""
        question, future = self.lots.pop(0)
        future.set_result(question(state))


class TestTogether:
    def test_those_who_ask_meanwhile_share_the_next_turn(self) -> None:
        """The first goes at once; all who ask while it is answered are answered in one go."""

        async def story() -> tuple[int, list[int], list[int]]:
            loop = Slow()
            asking = Together(loop)
            tasks = [
                asyncio.create_task(asking.ask(lambda state, number=number: number * state)) for number in range(9)
            ]
            await turns()
            first = len(loop.lots)
            loop.answer(10)
            await turns()
            lots = [first, len(loop.lots)]
            loop.answer(10)
            return len(loop.lots), lots, await asyncio.gather(*tasks)

        assert wait(story()) == (0, [1, 1], [number * 10 for number in range(9)])

    def test_a_lot_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is more waits for the turn after."""
        monkeypatch.setattr(together, "LOT_MAX", 2)

        async def story() -> int:
            loop, turn = Slow(), 0
            asking = Together(loop)
            tasks = [asyncio.create_task(asking.ask(lambda _state: None)) for _ in range(5)]
            await turns()
            while loop.lots:
                turn += 1
                loop.answer()
                await turns()
            await asyncio.gather(*tasks)
            return turn

        assert wait(story()) == 3

    def test_a_question_that_fails_fails_alone(self) -> None:
        """The others of its lot get their answers."""

        async def story() -> list[Any]:
            loop = Slow()
            asking = Together(loop)
            questions = (lambda state: state, lambda state: 1 // state, lambda state: state + 1)
            tasks = [asyncio.create_task(asking.ask(question)) for question in questions]
            for _ in range(2):
                await turns()
                loop.answer(0)
            return await asyncio.gather(*tasks, return_exceptions=True)

        first, failed, last = wait(story())
        assert (first, last) == (0, 1)
        assert isinstance(failed, ZeroDivisionError)

    def test_a_loop_that_takes_no_more_is_told_to_all(self) -> None:
        """And the next question is asked all the same."""

        async def story() -> int:
            loop = Slow()
            asking = Together(loop)
            asked = asyncio.create_task(asking.ask(lambda _state: 1))
            await turns()
            loop.lots.pop()[1].set_exception(InfrastructureError("full"))
            with pytest.raises(InfrastructureError, match="full"):
                await asked
            again = asyncio.create_task(asking.ask(lambda _state: 2))
            await turns()
            loop.answer()
            return await again

        assert wait(story()) == 2

    def test_one_who_leaves_takes_nobody_along(self) -> None:
        """A request that was cancelled gets no answer, and the others of its lot do."""

        async def story() -> list[int]:
            loop = Slow()
            asking = Together(loop)
            tasks = [asyncio.create_task(asking.ask(lambda _state, number=number: number)) for number in range(3)]
            await turns()
            loop.answer()
            await turns()
            tasks[1].cancel()
            await turns()
            loop.answer()
            return [await tasks[0], await tasks[2]]

        assert wait(story()) == [0, 2]


class TestWaits:
    def test_a_bell_ends_a_wait(self) -> None:
        """Long before its time."""

        async def story() -> None:
            bell = Bell()
            waiting = asyncio.create_task(Waits().wait(bell, 3600.0))
            await turns()
            assert not waiting.done()
            bell.ring()
            await asyncio.wait_for(waiting, 5)

        wait(story())

    def test_a_bell_that_was_rung_before_is_heard(self) -> None:
        """The wait does not begin."""

        async def story() -> None:
            bell = Bell()
            bell.ring()
            await asyncio.wait_for(Waits().wait(bell, 3600.0), 5)

        wait(story())

    def test_time_ends_all_waits_of_a_tick_with_one_timer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also where somebody has left meanwhile."""
        monkeypatch.setattr(bells, "TICK_S", 0.02)

        async def story() -> int:
            waits, timers = Waits(), 0
            events = asyncio.get_running_loop()
            inner = events.call_at

            def counted(*arguments: Any, **more: Any) -> Any:
                nonlocal timers
                timers += 1
                return inner(*arguments, **more)

            monkeypatch.setattr(events, "call_at", counted)
            monkeypatch.setattr(events, "time", lambda: 100.0)
            tasks = [asyncio.create_task(waits.wait(Bell(), 0.01)) for _ in range(5)]
            await turns()
            tasks[0].cancel()
            monkeypatch.undo()
            waits._end(5001)
            await asyncio.gather(*tasks[1:])
            return timers

        assert wait(story()) == 1


class TestBodies:
    def test_a_body_that_does_not_come_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The agent is told so with 408, and nothing is left of it."""
        monkeypatch.setattr(agents, "BODY_S", 0.01)
        sent: list[Any] = []

        async def never() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        app = agents.AgentsApp(*(None, None, None))  # nothing behind it is reached
        wait(app({"type": "http", "method": "POST", "path": JOIN_PATH, "headers": []}, never, send))
        assert sent[0]["status"] == 408
        assert sent[1]["body"] == b"no body within 0.01 s"

    def test_one_who_leaves_is_let_go(self) -> None:
        """A request that is cancelled while its body comes is cancelled, not answered."""

        async def story() -> None:
            bodies = agents.Bodies()
            reading = asyncio.create_task(bodies.read(asyncio.Event().wait))
            await turns()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert not bodies._began_s

        wait(story())


@pytest.fixture
def collector() -> Iterator[None]:
    """Leave the collector as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


class Knot:
    """A thing that only the collector finds."""

    def __init__(self, untied: list[int]) -> None:
        self.itself, self._untied = self, untied

    def __del__(self) -> None:
        self._untied.append(1)


class TestTidy:
    @pytest.mark.parametrize("whole", [10**6, pytest.param(10, marks=pytest.mark.slow)])
    def test_garbage_goes_whatever_is_looked_through(
        self, monkeypatch: pytest.MonkeyPatch, collector: None, whole: int
    ) -> None:
        """The new or all: what nobody holds any more is found."""
        monkeypatch.setattr(tidy, "LOOK_S", 0.0)
        monkeypatch.setattr(tidy, "WHOLE_LOOKS", whole)
        untied: list[int] = []

        async def story() -> None:
            tending = asyncio.create_task(tidy.keep_tidy())
            Knot(untied)
            await turns()
            tending.cancel()

        wait(story())
        assert untied == [1]
        assert gc.get_threshold()[1:] == (tidy.NEVER, tidy.NEVER)

    @pytest.mark.slow
    @pytest.mark.parametrize(("held", "gone"), [(10**9, [1]), (10**6, [])])
    def test_old_garbage_goes_once_memory_has_grown_by_it(
        self, monkeypatch: pytest.MonkeyPatch, collector: None, held: int, gone: list[int]
    ) -> None:
        """What outlived many looks before nobody held it any more does not pile up until the long while is over."""
        monkeypatch.setattr(tidy, "LOOK_S", 0.0)
        untied: list[int] = []
        kept = [Knot(untied)]
        gc.collect()
        kept.clear()
        figures = chain([10**6], repeat(held))

        async def story() -> None:
            tending = asyncio.create_task(tidy.keep_tidy(lambda: next(figures)))
            await turns()
            tending.cancel()

        wait(story())
        assert untied == gone


class TestFiles:
    @pytest.mark.parametrize(
        ("soft", "most", "set_to"), [(1024, 20_000, 20_000), (1024, -1, 65_536), (9, 10**6, 65_536)]
    )
    def test_a_server_may_have_a_connection_an_agent(
        self, monkeypatch: pytest.MonkeyPatch, soft: int, most: int, set_to: int
    ) -> None:
        """It takes as many open files as it is allowed, up to what makes sense."""
        found: list[Any] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _what: (soft, most))
        monkeypatch.setattr(resource, "setrlimit", lambda _what, limits: found.append(limits))
        process._open_many()
        assert found == [(set_to, most)]
