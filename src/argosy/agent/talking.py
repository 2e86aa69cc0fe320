"""The agent's side of the talk: two threads that tell the server what is held and bring back its answers.

One listens: its talk is answered when there is an order. The other tells at once what is news. What they tell is a
Picture that the agent's own thread sets; what they bring goes into its inbox. They keep the lease: by answers, and by
refused connections: nothing listened at the server's address at that moment, so nobody counted this node's silence.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from argosy.agent.http import Courier, RefusedError, ServerGoneError
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.talk import TALK_PATH, Answer, AnyReport, Held, HostFacts, Talk, read_word, write_word

LOG = logging.getLogger("argosy.agent")
LISTEN_S = 5.0
REPLY_S = 10.0
"""How long an answer may take beyond what it was allowed to be held back."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0)
REFUSED_S = 5.0
UNAUTHORIZED = 401
REPEAT_S = 0.5
"""How long to wait when the same orders come again."""
GATHER_S = 0.02
LEASE_PARTS = 3
"""How often a lease is renewed at least."""
LEASE_S = 60.0
"""Assumed before the server named one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What is to be told. reports: the oldest that wait."""

    held: tuple[Held, ...] = ()
    reports: tuple[AnyReport, ...] = ()


@dataclass(slots=True, kw_only=True)
class Voice:
    """What both threads share.

    session: of this process. extend: lets the lease end at a time. wake: the agent's own thread. key_refused: the
    server doesn't know the key.
    """

    server: str
    key: str
    session: str
    facts: HostFacts
    extend: Callable[[float], None]
    wake: Callable[[], None]
    inbox: "queue.Queue[Answer]" = field(default_factory=lambda: queue.Queue(64))
    picture: Picture = Picture()
    news: threading.Event = field(default_factory=threading.Event)
    taken: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    refusal: str = ""
    key_refused: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _left: bool = False
    _number: int = 0
    _failures: int = 0
    _facts_told: bool = False
    _lease_s: float = LEASE_S
    _deadline_s: float = 0.0

    def start(self) -> None:
        """Begin to talk."""
        for target in (self._listen, self._tell):
            threading.Thread(target=target, name=f"argosy{target.__name__}", daemon=True).start()

    def set(self, picture: Picture, *, news: bool) -> None:
        """Tell this from now on; news: at once."""
        with self._lock:
            self.picture = picture
        if news:
            self.news.set()

    def leave(self, timeout_s: float) -> None:
        """Say that this process ends, if the server hears it in time."""
        self.over.set()
        self.news.set()
        courier = Courier(self.server, self.key)
        talk = self._next(0.0, leaving=True)
        try:
            if talk is not None:
                courier.post(TALK_PATH, write_word(talk), timeout_s)
        except InfrastructureError as error:
            LOG.info("the server was not told that this agent leaves: %s", error)
        finally:
            courier.close()

    def _listen(self) -> None:
        courier = Courier(self.server, self.key)
        last: tuple[str, ...] = ()
        while not self.over.is_set():
            answer = self._talk(courier, min(LISTEN_S, self._lease_s / LEASE_PARTS))
            if answer is None:
                continue
            orders = tuple(order.id for order in answer.orders)
            pause_s = max(answer.again_s, REPEAT_S if orders and orders == last else 0.0)
            last = orders
            self.over.wait(pause_s)

    def _tell(self) -> None:
        courier = Courier(self.server, self.key)
        while True:
            self.news.wait()
            if self.over.is_set():
                return
            self.over.wait(GATHER_S)
            self.news.clear()
            if self._talk(courier, 0.0) is None:
                self.news.set()

    def _talk(self, courier: Courier, wait_s: float) -> Answer | None:
        """Talk once, and hand on the answer; None where there is none, after a pause."""
        talk = self._next(wait_s)
        if talk is None:
            return None
        sent_s = time.monotonic()
        try:
            answer = read_word(courier.post(TALK_PATH, write_word(talk), wait_s + REPLY_S), Answer)
        except ServerGoneError as error:
            self._hold(time.monotonic())
            self._failed(error)
            return None
        except (InfrastructureError, BadInputError) as error:
            self._failed(error)
            return None
        self._failures, self.refusal = 0, ""
        self._facts_told = self._facts_told or talk.facts is not None
        if answer.lease_s > 0:
            self._lease_s = answer.lease_s
            self._hold(sent_s)
        self.taken.clear()
        self.inbox.put(answer)
        self.wake()
        # The next talk is to tell what came of the orders.
        if answer.orders:
            self.taken.wait(REPLY_S)
        return answer

    def _failed(self, error: Exception) -> None:
        refused = isinstance(error, RefusedError)
        if isinstance(error, RefusedError) and error.status == UNAUTHORIZED:
            self.key_refused = True
            self.wake()
        text = str(error)
        if text != self.refusal:
            LOG.warning("%s", text)
            self.refusal = text
        pause_s = REFUSED_S if refused else BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1
        self.over.wait(min(pause_s, self._lease_s / LEASE_PARTS) * random.uniform(0.8, 1.2))

    def _hold(self, from_s: float) -> None:
        """Let the lease run from this moment."""
        with self._lock:
            if from_s + self._lease_s <= self._deadline_s:
                return
            self._deadline_s = from_s + self._lease_s
        try:
            self.extend(self._deadline_s)
        except OSError as error:
            LOG.warning("the lease can't be written: %s", error)

    def _next(self, wait_s: float, *, leaving: bool = False) -> Talk | None:
        """Make the next talk: what has the higher number tells the newer picture; None after the last one."""
        with self._lock:
            if self._left:
                return None
            self._left = leaving
            self._number += 1
            return Talk(
                session=self.session,
                number=self._number,
                boot_id=self.facts.boot_id,
                sent_us=time.time_ns() // 1000,
                wait_s=wait_s,
                held=self.picture.held,
                # Only the one that tells carries reports; the listener's would be the same ones.
                reports=self.picture.reports if not wait_s else (),
                facts=None if self._facts_told else self.facts,
                leaving=leaving,
            )
