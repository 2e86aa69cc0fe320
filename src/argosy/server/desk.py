"""Where agents come to: what each said last, what it is told, and who has been silent too long.

Lives on the event loop's thread, except `held_of`, which the loop's thread reads. What is to be done it takes from
`compare`; whatever gets lost is said again at the next talk. Must not know HTTP, nor decide anything.
"""

import asyncio
import itertools
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import (
    WAIT_S_MAX,
    Answer,
    AnyOrder,
    Held,
    LogPart,
    NodeNoted,
    OrderRefused,
    RankSaid,
    ReadLog,
    Talk,
)
from argosy.control.state import State
from argosy.server.bells import Bell, Waits
from argosy.server.compare import Comparer, Found
from argosy.server.launching import Wanted
from argosy.server.loop import Loop, wall_us
from argosy.server.together import Together

LOG = logging.getLogger("argosy.server")
DOWN_AFTER_S = 15.0
"""A node whose agent was silent so long is down. More than the longest wait for an answer."""
RESEND_S = 2.0
LOOK_AGAIN_S = 0.5
HURRY_S = 0.1
"""How long an answer that need not wait for orders waits for the loop; then they come with a later one."""
LOG_S = 20.0
MAIL_MAX = 256
REFUSALS_KEPT = 1000
REPORTS_MAX = 1000
FORMER_KEPT = 8
BUSY = 20_000
"""So many events that wait for the loop make agents hold their reports back."""


@dataclass(slots=True, kw_only=True, eq=False)
class Agent:
    """One node's agent. taken, safe: numbers of the newest report that was counted, and that is on disk.

    unsettled: it has to be compared. sent: when an order was last sent, by id. former: sessions before this one.
    leaving: its process said that it ends.
    """

    node: str
    session: str = ""
    former: tuple[str, ...] = ()
    number: int = 0
    boot_id: str = ""
    leaving: bool = False
    fenced: bool = False
    heard_s: float = 0.0
    heard_us: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    taken: int = 0
    safe: int = 0
    unsettled: bool = True
    sent: dict[str, float] = field(default_factory=dict)
    mail: list[ReadLog] = field(default_factory=list)
    bell: Bell = field(default_factory=Bell)


class Ledger(Protocol):
    """Who keeps what ranks report."""

    def take(self, node: str, said: RankSaid) -> None:
        """Count a report."""

    async def flush(self) -> None:
        """Return once all that was counted is on disk."""


class Desk:
    """All agents. muster: is told of a generation whose orders are missing. note: is told what agents note."""

    def __init__(
        self,
        loop: Loop,
        comparer: Comparer,
        ledger: Ledger,
        *,
        muster: Callable[[Wanted], None],
        note: Callable[[str, str, str], None],
    ) -> None:
        self._loop, self._comparer, self._ledger = loop, comparer, ledger
        self._muster, self._note = muster, note
        self._together, self._waits = Together(loop), Waits()
        self._agents: dict[str, Agent] = {}
        self._unswept: list[Agent] = []
        self._logs: dict[str, asyncio.Future[LogPart]] = {}
        self._refusals: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._run = secrets.token_hex(4)
        self._closed = False
        self.lease_s = 30.0

    def held_of(self, node: str) -> Mapping[str, Held]:
        """Give what a node's agent last said that it holds."""
        agent = self._agents.get(node)
        return agent.held if agent is not None else {}

    def heard_us(self, node: str) -> int | None:
        """Say when a node's agent was last heard."""
        agent = self._agents.get(node)
        return agent.heard_us or None if agent is not None else None

    def refusal(self, job: str) -> str:
        """Say which node last refused an order for a job, and why; empty where none did."""
        return self._refusals.get(job, "")

    def expect(self, nodes: Iterable[str]) -> None:
        """Count the silence of nodes that were up before the server began from now on."""
        for node in nodes:
            self._agent(node).heard_s = time.monotonic()

    def touch(self, nodes: Iterable[str]) -> None:
        """Compare nodes again, and answer them if something is to be said."""
        for node in nodes:
            agent = self._agents.get(node)
            if agent is not None:
                agent.unsettled = True
                agent.bell.ring()

    def sweep(self, share: float) -> None:
        """Compare a share of all nodes, others at each call, whether anything seems to have changed there or not."""
        self._unswept = self._unswept or list(self._agents.values())
        count = math.ceil(share * len(self._agents))
        some, self._unswept = self._unswept[:count], self._unswept[count:]
        events, now_us = asyncio.get_running_loop(), wall_us()

        def question(state: State) -> list[str]:
            found = ((one.node, self._comparer.compare(state, one.node, fenced=False, now_us=now_us)) for one in some)
            return [node for node, each in found if not each.settled]

        def swept(done: "Future[list[str]]") -> None:
            if done.exception() is None:
                events.call_soon_threadsafe(self.touch, done.result())

        self._loop.ask(question).add_done_callback(swept)

    def close(self) -> None:
        """Answer everybody who waits, and let nobody wait any more."""
        self._closed = True
        for agent in self._agents.values():
            agent.bell.ring()

    async def talk(self, node: str, talk: Talk) -> Answer:
        """Take in what an agent says and answer it, at the latest after the wait it grants.

        Raises BadInputError for an agent that has the key of another one that is heard.
        """
        agent = self._agent(node)
        check_alone(agent, talk)
        newest = self._take(agent, talk)
        orders: Sequence[AnyOrder] = ()
        if newest:
            wait_s = 0.0 if talk.reports else min(max(0.0, talk.wait_s), WAIT_S_MAX)
            orders = await self._orders(agent, talk, wait_s)
        if agent.taken > agent.safe and newest:
            taken = agent.taken
            await self._ledger.flush()
            agent.safe = max(agent.safe, taken)
        return Answer(
            term=self._loop.term,
            lease_s=self.lease_s,
            orders=tuple(orders),
            acknowledged=agent.safe if agent.session == talk.session else 0,
            reports_max=REPORTS_MAX if self._loop.waiting < BUSY else 0,
            again_s=0.0 if talk.wait_s else 1.0,
        )

    async def read_log(self, node: str, attempt: str, generation: int, rank: int, offset: int, limit: int) -> LogPart:
        """Read a part of a rank's log on its node. Raises InfrastructureError when the node does not answer."""
        agent = self._agents.get(node)
        if agent is None or time.monotonic() - agent.heard_s > DOWN_AFTER_S:
            raise InfrastructureError(f"node {node} does not answer, and its logs lie there; `argosy nodes` shows it")
        if len(agent.mail) >= MAIL_MAX:
            raise InfrastructureError(f"node {node} is asked for more logs than it gives; try again later")
        name = f"log-{self._run}-{next(self._numbers)}"
        future = asyncio.get_running_loop().create_future()
        self._logs[name] = future
        order = ReadLog(
            id=name,
            term=self._loop.term,
            attempt=attempt,
            generation=generation,
            rank=rank,
            offset=offset,
            limit_bytes=limit,
        )
        agent.mail.append(order)
        agent.bell.ring()
        try:
            return await asyncio.wait_for(future, LOG_S)
        except TimeoutError as error:
            raise InfrastructureError(f"node {node} gave nothing of its log within {LOG_S:g} s; try again") from error
        finally:
            self._logs.pop(name, None)

    def excuse(self, held_up_s: float) -> None:
        """Leave out of every node's silence a time in which this process itself was held up and heard nobody."""
        now_s = time.monotonic()
        for agent in self._agents.values():
            if agent.heard_s > 0:
                agent.heard_s = min(now_s, agent.heard_s + held_up_s)

    def silent(self) -> list[str]:
        """List the nodes that were silent too long and that nobody was told of yet."""
        limit_s = time.monotonic() - DOWN_AFTER_S
        late = [agent for agent in self._agents.values() if 0 < agent.heard_s < limit_s]
        for agent in late:
            agent.heard_s = 0.0
        return [agent.node for agent in late]

    def _agent(self, node: str) -> Agent:
        agent = self._agents.get(node)
        if agent is None:
            agent = self._agents[node] = Agent(node=node)
        return agent

    def _take(self, agent: Agent, talk: Talk) -> bool:
        """Note what an agent says; False for a talk that a newer one has overtaken."""
        if talk.session != agent.session:
            agent.former = (*agent.former, agent.session)[-FORMER_KEPT:] if agent.session else ()
            agent.session, agent.number, agent.taken, agent.safe = talk.session, 0, 0, 0
            agent.sent.clear()
            agent.unsettled = True
        if talk.number <= agent.number:
            return False
        agent.number, agent.heard_s, agent.heard_us = talk.number, time.monotonic(), wall_us()
        agent.bell.ring()
        if agent.boot_id and talk.boot_id != agent.boot_id:
            agent.fenced = agent.unsettled = True
        agent.boot_id, agent.leaving = talk.boot_id, talk.leaving
        held = {one.attempt: one for one in talk.held}
        if held != agent.held:
            agent.unsettled = True
        agent.held = held
        for report in talk.reports:
            if report.number > agent.taken:
                agent.taken = report.number
                self._report(agent.node, report)
        return True

    def _report(self, node: str, report: Any) -> None:
        match report:
            case RankSaid():
                self._ledger.take(node, report)
            case LogPart(order=order):
                waiting = self._logs.get(order)
                if waiting is not None and not waiting.done():
                    waiting.set_result(report)
            case OrderRefused(attempt=attempt, text=text):
                self._refusals[attempt.rpartition(".")[0]] = f"{node} refused an order: {text}"
                if len(self._refusals) > REFUSALS_KEPT:
                    del self._refusals[next(iter(self._refusals))]
                self._note("node.refused", node, f"{attempt}: {text}")
            case NodeNoted(text=text, level=level):
                self._note(f"node.{level}", node, text)

    async def _orders(self, agent: Agent, talk: Talk, wait_s: float) -> list[AnyOrder]:
        """Wait until there is something to say to an agent, or until a newer talk of it came."""
        deadline_s = time.monotonic() + wait_s
        # An agent that begins anew counts from 1 again.
        while (agent.session, agent.number) == (talk.session, talk.number):
            # A bell of its own: one that was rung before the wait begins must still be heard.
            bell = agent.bell = Bell()
            patience_s = max(deadline_s - time.monotonic(), HURRY_S)
            orders = self._fresh(agent, await self._compare(agent, patience_s)) if agent.unsettled else []
            orders += agent.mail
            agent.mail = []
            left_s = deadline_s - time.monotonic()
            if orders or left_s <= 0 or self._closed:
                return orders
            await self._waits.wait(bell, min(left_s, LOOK_AGAIN_S) if agent.unsettled else left_s)
        return []

    async def _compare(self, agent: Agent, patience_s: float) -> list[AnyOrder]:
        """Compare a node, unless that takes too long: a disk that hangs must not let leases run out."""
        agent.unsettled = False
        fenced = agent.fenced

        def question(state: State) -> Found:
            return self._comparer.compare(state, agent.node, fenced=fenced, now_us=wall_us())

        try:
            async with asyncio.timeout(patience_s):
                found: Found = await self._together.ask(question)
        except (InfrastructureError, TimeoutError):
            agent.unsettled = True
            return []
        except BaseException:
            # Whoever asked has left, or the comparison failed: it is still to be done.
            agent.unsettled = True
            raise
        for kind, fields in found.events:
            self._loop.send(kind, **fields)
        agent.fenced = agent.fenced and not fenced
        for wanted in found.musters:
            self._muster(wanted)
        self.touch(found.touch)
        agent.unsettled = agent.unsettled or not found.settled
        return found.orders

    def _fresh(self, agent: Agent, orders: list[AnyOrder]) -> list[AnyOrder]:
        """Leave out what was said a moment ago and may still be on its way."""
        now_s = time.monotonic()
        agent.sent = {name: at_s for name, at_s in agent.sent.items() if at_s > now_s - RESEND_S}
        fresh = [order for order in orders if order.id not in agent.sent]
        agent.sent |= {order.id: now_s for order in fresh}
        return fresh


def check_alone(agent: Agent, talk: Talk) -> None:
    """Raise BadInputError where two agents have one key, as when a folder was copied: both would be told to run a job.

    On one host the newer process counts, since one that was started again comes after the one that died; from another
    host (or boot) none does while the first is heard. Once that one is silent or left, the other is heard again.
    """
    heard = time.monotonic() - agent.heard_s <= DOWN_AFTER_S and not agent.leaving
    if heard and (talk.session in agent.former or agent.boot_id not in ("", talk.boot_id)):
        text = f"another agent talks with the key of node {agent.node}: was its folder copied?"
        raise BadInputError(f"{text} Join this host by a folder of its own (--state) and a join token")
