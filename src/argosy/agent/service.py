"""The agent of a node in the service: joins a server, tells what it holds, does what it is told, until it is ended.

Its own thread alone touches what is held. When it ends, its ranks go on; the next process on this node finds them
again. It must not know what jobs are for.
"""

import contextlib
import logging
import os
import queue
import secrets
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from argosy.agent.folder import LEAVE_SIGNAL, LOCK_NAME, Lease, is_at, make_folder, service_path, take_lock
from argosy.agent.joining import NotWantedError, join
from argosy.agent.keeper import Keeper, Place
from argosy.agent.outgoing import Outgoing
from argosy.agent.talking import Picture, Voice
from argosy.agent.warm import WarmServer
from argosy.contracts.errors import ArgosyError, BadInputError, InfrastructureError
from argosy.contracts.talk import Answer, HostFacts, StartTrain

LOG = logging.getLogger("argosy.agent")
JOIN_S = 30.0
TICK_S = 1.0
BUSY_TICK_S = 0.25
LEAVE_S = 2.0
WARM_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent is started.

    server: URL. token: to join by; empty: it joined before. node: the name it wishes for. state: its own folder.
    fork_folder, fork_environment: of the fork server, which agents of one host may share. warm: keep one loaded before
    it is needed. join_s: how long it tries to join.
    """

    server: str
    state: Path
    facts: HostFacts
    fork_folder: Path
    token: str = ""
    node: str = ""
    fork_environment: dict[str, str] = field(default_factory=dict)
    warm: bool = True
    join_s: float = JOIN_S


class Service:
    """One agent's life. Raises ArgosyError where it can't begin."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._state = options.state.absolute()
        make_folder(self._state)
        self._lock = _lock(self._state)
        self._wake_path = self._state / "wake"
        self._wake = _open_wake(self._wake_path)
        self._join(options.join_s)
        self._warm = WarmServer(options.fork_folder, options.fork_environment)
        self._lease = Lease(self._state / "lease")
        self._lease.begin(options.facts.boot_id)
        self._keep_anew()
        self._voice = self._new_voice()
        self._reports_max = 1000
        self._told: Picture | None = None
        self._warm_at_s = 0.0
        self._over = self._leaving = False
        self._term = self._code = 0

    def run(self) -> int:
        """Work until a signal asks to end; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        signal.signal(LEAVE_SIGNAL, lambda *_: self.leave())
        self._look()
        self._voice.start()
        try:
            while not self._over:
                self._keep_folder()
                self._keep_key()
                self._keep_warm()
                self._rest()
                answered = self._take_answers()
                self._look()
                if answered:
                    self._voice.taken.set()
                if self._leaving and not self._keeper.busy:
                    self.end()
        finally:
            self._voice.leave(LEAVE_S)
            self._warm.release()
        LOG.info("this agent ended; its ranks go on until the lease runs out, unless it comes back")
        return self._code

    def end(self) -> None:
        """Have it end soon."""
        self._over = True
        _poke(self._wake)

    def leave(self) -> None:
        """Have it end once nothing runs here, since its server ends: until then it keeps the lease for its ranks.

        The next server that answers wants it to stay.
        """
        self._leaving = True
        _poke(self._wake)

    def _rest(self) -> None:
        tick_s = BUSY_TICK_S if self._keeper.busy else TICK_S
        if self._voice.inbox.empty() and not self._over:
            select.select([self._wake], [], [], tick_s)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def _take_answers(self) -> bool:
        """Do what the server says; tells whether it said anything."""
        answered = False
        while True:
            try:
                answer = self._voice.inbox.get_nowait()
            except queue.Empty:
                return answered
            answered = True
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        if answer.term != self._term:
            self._term, self._leaving = answer.term, False
        self._outgoing.acknowledge(answer.acknowledged)
        self._reports_max = max(0, answer.reports_max)
        for order in answer.orders:
            try:
                if isinstance(order, StartTrain):
                    self._ensure_warm()
                self._keeper.obey(order)
            except ArgosyError as error:
                if self._outgoing.refused(order.id, order.attempt, str(error)):
                    LOG.warning("order %s: %s", order.id, error)

    def _look(self) -> None:
        """See how things stand, and have it told where that is news."""
        held = self._keeper.held()
        self._keeper.take_reports()
        picture = Picture(held=held, reports=self._outgoing.first(self._reports_max))
        before = self._told
        news = before is None or _bare(held) != _bare(before.held) or _newest(picture) != _newest(before)
        self._voice.set(picture, news=news)
        self._told = picture

    def _join(self, patience_s: float, refused_key: str = "") -> None:
        options = self._options
        self.identity = join(
            options.server,
            self._state,
            options.facts,
            token=options.token,
            node=options.node,
            patience_s=patience_s,
            refused_key=refused_key,
        )

    def _keep_anew(self) -> None:
        """Keep what is of the service that this agent joined."""
        options = self._options
        place = Place(
            state=self._state,
            home=service_path(self._state, self.identity.service),
            node=self.identity.node,
            address=options.facts.address,
            server=options.server,
            fork_folder=options.fork_folder,
        )
        self._outgoing = Outgoing()
        self._keeper = Keeper(place, self._outgoing)

    def _new_voice(self) -> Voice:
        return Voice(
            server=self._options.server,
            key=self.identity.key,
            session=secrets.token_hex(8),
            facts=self._options.facts,
            extend=self._lease.extend,
            wake=lambda: _poke(self._wake),
        )

    def _keep_folder(self) -> None:
        """End where the folder is gone: nothing can be kept, and the next agent would not know of this one."""
        if not is_at(self._state / LOCK_NAME, self._lock):
            LOG.error("the agent's folder %s was removed or moved away; this agent ends", self._state)
            self._code = InfrastructureError.exit_code
            self.end()

    def _keep_key(self) -> None:
        """Join again, where a token is at hand, when the server doesn't know the key any more."""
        if not self._voice.key_refused or not self._options.token:
            return
        self._voice.key_refused = False
        service = self.identity.service
        try:
            self._join(0.0, self.identity.key)
        except NotWantedError as error:
            # Whoever started it may have another token by now, or has to be told that this node is not wanted.
            LOG.error("the server knows neither this agent's key nor its token: %s; this agent ends", error)
            self._code = error.exit_code
            self.end()
            return
        except ArgosyError as error:
            LOG.warning("can't join again: %s", error)
            return
        LOG.info("joined again as node %s", self.identity.node)
        if self.identity.service != service:
            LOG.warning("it is another service, by its store: what runs here of the former one is ended")
            self._keep_anew()
        self._voice.over.set()
        self._voice.news.set()
        self._voice, self._told = self._new_voice(), None
        self._look()
        self._voice.start()

    def _keep_warm(self) -> None:
        """Have a fork server loaded, and another when it died."""
        now_s = time.monotonic()
        if not self._options.warm or now_s < self._warm_at_s:
            return
        self._warm_at_s = now_s + WARM_EVERY_S
        self._ensure_warm()

    def _ensure_warm(self) -> None:
        """Have a fork server; a runner that finds none tells so."""
        try:
            self._warm.ensure()
        except InfrastructureError as error:
            LOG.warning("%s", error)


def _lock(state: Path) -> int:
    """Have an agent's folder for this process alone."""
    try:
        lock = take_lock(state / LOCK_NAME)
    except OSError as error:
        text = f"can't use the agent's folder {state}: {error.strerror}"
        raise InfrastructureError(f"{text}; --state names another") from error
    if lock is None:
        raise BadInputError(f"another agent uses {state}; give each its own by --state")
    return lock


def _open_wake(path: Path) -> int:
    """Open the pipe by which runners and threads wake the agent; opened both ways, it never ends."""
    try:
        if not path.exists():
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InfrastructureError(f"can't make the pipe {path}: {error.strerror}") from error


def _poke(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.write(descriptor, b"!")


def _bare(held: tuple[object, ...]) -> tuple[object, ...]:
    """Leave out what changes all the time and may wait for the next talk."""
    return tuple(
        msgspec.structs.replace(one, quiet_s=0.0, unmarked_s=None, step=None)
        if isinstance(one, msgspec.Struct)
        else one
        for one in held
    )


def _newest(picture: Picture) -> int:
    return picture.reports[-1].number if picture.reports else 0
