"""Orders of generations, worked out in the background and kept while they run.

What is missing here is worked out again when a node of the generation talks. Must not know how orders travel.
"""

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future

from argosy.contracts.command import Launch
from argosy.contracts.event import AttemptEnded
from argosy.server.briefs import brief_of, put_orders
from argosy.server.ground import Ground
from argosy.server.launching import Muster, Wanted, grace_s_of, muster
from argosy.server.loop import Committed, Loop
from argosy.server.models import Figures
from argosy.server.store import Store

LOG = logging.getLogger("argosy.server")
SPARE = 16
AGAIN_S = 60.0
"""How long after orders could not be worked out they are tried again."""


class Orders:
    """Works out orders for one loop. ground: gives the fleet as it is now; done: is told of nodes that wait for them.

    musters: what was worked out, by attempt and generation. graces_s: from SIGTERM to SIGKILL, by attempt.
    """

    def __init__(
        self,
        store: Store,
        loop: Loop,
        ground: Callable[[], Ground],
        workers: Executor,
        done: Callable[[Iterable[str]], None],
    ) -> None:
        self._store, self._loop, self._ground = store, loop, ground
        self._workers, self._done = workers, done
        self._busy: set[tuple[str, int]] = set()
        self._failed_s: dict[tuple[str, int], float] = {}
        self.musters: dict[tuple[str, int], Muster] = {}
        self.graces_s: dict[str, float] = {}

    def launch(self, command: Launch) -> tuple[str, ...]:
        """Work out what the core wants launched; gives the nodes."""
        nodes = tuple(name for part in command.nodes for name in part)
        self.muster(
            Wanted(
                attempt=command.attempt,
                generation=command.generation,
                job=command.job,
                option=command.option,
                size=command.size,
                nodes=nodes,
            )
        )
        return nodes

    def muster(self, wanted: Wanted) -> None:
        """Work out the orders of a generation, once; of one without nodes only the grace of its job."""
        failed_s = self._failed_s.get(wanted.key)
        waits = failed_s is not None and time.monotonic() < failed_s + AGAIN_S
        known = wanted.key in self.musters if wanted.nodes else wanted.attempt in self.graces_s
        if not (waits or known or wanted.key in self._busy):
            self._busy.add(wanted.key)
            self._workers.submit(self._muster, wanted)

    def prune(self, committed: Committed) -> None:
        """Drop the orders of generations that are over, now and then."""
        attempts = committed.state.attempts
        if len(self.musters) > 2 * len(attempts) + SPARE:
            for key in list(self.musters):
                if key[0] not in attempts or key[1] < attempts[key[0]].generation:
                    self.musters.pop(key, None)
        if len(self.graces_s) + len(self._failed_s) > 2 * len(attempts) + SPARE:
            for name in [name for name in list(self.graces_s) if name not in attempts]:
                self.graces_s.pop(name, None)
            for key in [key for key in list(self._failed_s) if key[0] not in attempts]:
                self._failed_s.pop(key, None)

    def _muster(self, wanted: Wanted) -> None:
        try:
            brief = brief_of(self._store, wanted.job)
            self.graces_s[wanted.attempt] = grace_s_of(brief.job)
            if not wanted.nodes:
                return
            found = muster(wanted, brief, self._ground())
            self.musters[wanted.key] = found
            self._loop.write(put_orders(found, _predicted(found)))
        except Exception as error:
            LOG.exception("the orders of %s:%s can't be worked out", *wanted.key)
            self._failed_s[wanted.key] = time.monotonic()
            self._fail(wanted, f"its orders can't be worked out: {error}")
        finally:
            self._busy.discard(wanted.key)
        self._done(wanted.nodes)

    def _fail(self, wanted: Wanted, text: str) -> None:
        """End an attempt that can't be started; one that runs already goes on without."""
        attempt, generation = wanted.key

        def end(asked: "Future[bool]") -> None:
            if asked.exception() is None and asked.result():
                self._loop.send(
                    AttemptEnded,
                    attempt=attempt,
                    generation=generation,
                    outcome="infrastructure",
                    evidence=f"{attempt}:{generation} orders",
                    text=text,
                )

        starts = self._loop.ask(lambda state: wanted.job in state.jobs and state.jobs[wanted.job].state == "preparing")
        starts.add_done_callback(end)


def _predicted(found: Muster) -> Figures:
    """Give what the planner expects, in the API's words."""
    told = found.launch.plan.prediction if found.launch is not None else None
    if told is None:
        return Figures()
    return Figures(
        step_ms=told.step_ms,
        tokens_per_second=told.tokens_per_second,
        memory_gb=told.memory_gb,
        cost_per_trillion_tokens=told.cost_per_trillion_tokens,
        emulated=told.emulated,
    )
