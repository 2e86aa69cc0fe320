"""Questions of many to the loop, put together: while one lot is being answered, the next one gathers.

So a thousand that ask at once cost the loop's thread and this one a few turns, not a thousand. Lives on the event
loop's thread. Must not know what is asked.
"""

import asyncio
from concurrent.futures import Future
from typing import Any, TypeVar

from argosy.control.state import State
from argosy.server.loop import Loop, Question

LOT_MAX = 64
"""So many are answered in one go; more would hold up whatever else the loop has to do."""

T = TypeVar("T")
Asked = tuple[Question[Any], "asyncio.Future[Any]"]


class Together:
    """Asks one loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._waiting: list[Asked] = []
        self._under_way = False

    async def ask(self, question: Question[T]) -> T:
        """Ask the committed state; raises what the question does, or InfrastructureError from a loop that is full."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if not self._under_way:
            self._next()
        return await answer

    def _next(self) -> None:
        waiting = [one for one in self._waiting if not one[1].done()]
        lot, self._waiting = waiting[:LOT_MAX], waiting[LOT_MAX:]
        self._under_way = bool(lot)
        if not lot:
            return
        events = asyncio.get_running_loop()

        def told(done: "Future[list[Any]]") -> None:
            events.call_soon_threadsafe(self._told, lot, done)

        self._loop.ask(lambda state: [_answer(question, state) for question, _ in lot]).add_done_callback(told)

    def _told(self, lot: list[Asked], done: "Future[list[Any]]") -> None:
        failed = done.exception()
        answers = [failed] * len(lot) if failed else done.result()
        for (_, waiting), answer in zip(lot, answers, strict=True):
            if waiting.done():
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        self._next()


def _answer(question: Question[Any], state: State) -> Any:
    """Answer one of a lot; what it raises is its own alone."""
    try:
        return question(state)
    except Exception as error:
        return error
