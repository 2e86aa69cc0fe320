"""Several nodes on this machine: an agent process for each, one fork server for all, one store an attempt.

The engine sends the launch and hands on what agents report; it decides nothing about plans or chips and imports no
torch. Single-threaded: between calls nothing is read, so reports wait in sockets and pipes, and ranks block once
those are full.
"""

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from argosy.agent.store import HostedStore
from argosy.contracts.blame import INFRASTRUCTURE
from argosy.contracts.errors import BadInputError, InfrastructureError
from argosy.contracts.fleet import Node
from argosy.contracts.launching import DEFAULT_ENTRY, DEFAULT_PRELOAD, StartRanks, StopRanks
from argosy.contracts.messages import AgentReady, Failed, Launch, Note, RankExited, Upward
from argosy.engine.crew import POLL_S, Crew
from argosy.engine.failure import failure_error, is_failure

SILENCE_S = 1800.0
ANSWER_S = 2.0
"""How much longer than a stop's grace an agent may take before it is killed itself."""
REPLY_S = 10.0
"""How long the fork server, which has loaded by then, may take to answer."""
BOARD_BYTES = 1 << 30
"""Size of the emulated clock's board: a hole in a file, which takes only the memory that ranks touch."""

_KILLED = -9


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do.

    hosts_max: machines it spans, None for any number. joins_later: nodes may come while it runs.
    """

    name: str
    hosts_max: int | None
    kill_node: bool
    drain: bool
    joins_later: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How the local engine behaves; the defaults are right for training.

    entry, preload: what ranks run and what the fork server loads for it.
    host_store: whether a launch gets a TCPStore, at store_host:store_port (0: any free port).
    start_timeout_s: for fork server, agents and store together.
    settle_s: how long the other ranks may go on after the first failure; None: for ever.
    stop_grace_s: between SIGTERM and SIGKILL.
    """

    entry: str = DEFAULT_ENTRY
    preload: tuple[str, ...] = DEFAULT_PRELOAD
    host_store: bool = True
    store_host: str = "127.0.0.1"
    store_port: int = 0
    start_timeout_s: float = 60.0
    settle_s: float | None = 3.0
    stop_grace_s: float = 5.0


class LocalEngine:
    """Runs launches on nodes that all live on this machine.

    with LocalEngine(nodes, directory) as engine:
        engine.launch(launch)
        for message in engine.messages(): ...

    nodes: each gets an agent; one without ranks is a spare. directory: rank N writes to `logs/rank-N.log` in it.
    `start` (the `with` statement) returns while torch still loads in the background; `launch` waits for it.
    """

    capabilities = Capabilities(name="local", hosts_max=1, kill_node=True, drain=False, joins_later=False)

    def __init__(self, nodes: Sequence[Node], directory: Path, options: LocalOptions | None = None) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._directory = Path(directory).absolute()
        self._options = options or LocalOptions()
        self._crew: Crew | None = None
        self._store: HostedStore | None = None
        self._generation = 0
        self._running: dict[int, str] = {}
        self._inbox: deque[Upward] = deque()
        self._first_failure: Failed | RankExited | None = None
        self._stop_at_s: float | None = None
        self._kill_at_s: float | None = None

    def __enter__(self) -> "LocalEngine":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def logs(self) -> Path:
        """Folder of the logs of ranks, agents and fork server."""
        return self._directory / "logs"

    @property
    def running(self) -> tuple[int, ...]:
        """Ranks that were launched and have not ended, as far as is known."""
        return tuple(sorted(self._running))

    def start(self) -> None:
        """Start fork server and agents, once; does not wait until torch is loaded.

        Raises InfrastructureError when a folder, socket or process can't be made.
        """
        if self._crew is not None:
            return
        make_directory(self.logs)
        options = self._options
        self._crew = Crew(
            tuple(self._nodes),
            self.logs,
            entry=options.entry,
            preload=options.preload,
            start_timeout_s=options.start_timeout_s,
        )

    def launch(self, launch: Launch) -> None:
        """Start every rank of the plan's placement; fills in the store and, where empty, directory and board.

        Returns once the agents were told. Raises BadInputError for a placement that these nodes can't hold,
        InfrastructureError when an agent or the store doesn't come up in time.
        """
        ranks = ranks_by_node(launch, self._nodes)
        if self._running:
            raise BadInputError(f"ranks {_names(self._running)} of the last launch still run; stop them first")
        self.start()
        deadline_s = time.monotonic() + self._options.start_timeout_s
        heard = self._open_crew().await_ready(ranks, deadline_s)
        self._inbox = deque(one.message for one in heard if isinstance(one.message, AgentReady))
        launch = self._with_store(self._with_paths(launch), deadline_s)
        self._generation = launch.generation
        self._first_failure = self._stop_at_s = self._kill_at_s = None
        self._running = {rank: node for node, numbers in ranks.items() for rank in numbers}
        threads = 1 if len(self._running) > 1 else 0
        for node, numbers in ranks.items():
            request = StartRanks(launch=launch, ranks=numbers, log_directory=str(self.logs), threads=threads)
            self._open_crew().send(node, request)

    def messages(self, timeout_s: float = SILENCE_S) -> Iterator[Upward]:
        """Hand out what agents and ranks report, in the order it came; ends when every rank of the launch has ended.

        A rank's RankExited comes after all its other reports. When a node is lost, a Failed of its agent comes first,
        then a RankExited with SIGKILL's code for each of its ranks. After the first failure the other ranks get
        `settle_s`, then are stopped. Raises InfrastructureError when nothing is heard for timeout_s.
        """
        heard_at_s = time.monotonic()
        while self._running or self._inbox:
            if not self._inbox:
                self._receive()
            if self._inbox:
                heard_at_s = time.monotonic()
                yield self._inbox.popleft()
            elif time.monotonic() - heard_at_s > timeout_s:
                ranks = _names(self._running)
                raise InfrastructureError(f"ranks {ranks} run but said nothing for {timeout_s:g} s; see {self.logs}")
            self._keep_deadlines()

    def stop(self, reason: str) -> None:
        """Ask all ranks to end: SIGTERM now, SIGKILL after the grace.

        Returns at once; `messages` tells when they have ended. A second call changes nothing.
        """
        self._stop_at_s = None
        if self._kill_at_s is not None:
            return
        grace_s = self._options.stop_grace_s
        self._kill_at_s = time.monotonic() + grace_s + ANSWER_S
        for node in set(self._running.values()):
            with contextlib.suppress(InfrastructureError):  # `messages` tells that the node is lost
                self._open_crew().send(node, StopRanks(reason=reason, grace_s=grace_s))

    def kill_node(self, name: str) -> None:
        """Kill a node's agent, and so its ranks, as if the machine had lost power."""
        if name not in self._nodes:
            raise BadInputError(f"there is no node {name!r}; the nodes are {', '.join(self._nodes) or 'none'}")
        self._open_crew().kill(name)

    def close(self) -> None:
        """End everything at once; ranks that still run are killed. May be called twice.

        For a clean end call `stop` first and read `messages` to its end.
        """
        if self._store is not None:
            self._store.close()
        if self._crew is not None:
            self._crew.close()
        self._store = self._crew = None
        self._running = {}

    def _open_crew(self) -> Crew:
        if self._crew is None:
            raise InfrastructureError("the engine isn't started, or closed already")
        return self._crew

    def _with_paths(self, launch: Launch) -> Launch:
        """Fill in where ranks write and, for emulated chips, an empty board for their clock."""
        board = launch.board
        if launch.plan.emulated and not board:
            path = self._open_crew().private / f"board-{launch.generation}"
            try:
                with path.open("wb") as file:
                    file.truncate(BOARD_BYTES)
            except OSError as error:
                raise InfrastructureError(f"can't make the emulated clock's board {path}: {error.strerror}") from error
            board = str(path)
        return dataclasses.replace(launch, directory=launch.directory or str(self._directory), board=board)

    def _with_store(self, launch: Launch, deadline_s: float) -> Launch:
        """Give each launch a store of its own: keys of an earlier one would mislead it."""
        options = self._options
        if self._store is not None:
            self._store.close()
            self._store = None
        if not options.host_store:
            return launch
        patience_s = min(REPLY_S, max(1.0, deadline_s - time.monotonic()))
        path = self._open_crew().fork_socket
        self._store = HostedStore(path, options.store_host, options.store_port, patience_s)
        return dataclasses.replace(launch, store_host=self._store.host, store_port=self._store.port)

    def _receive(self) -> None:
        for heard in self._open_crew().poll(POLL_S):
            if heard.message is None:
                self._lose(heard.node)
            else:
                self._take(heard.message)

    def _take(self, message: Upward) -> None:
        """Put a message into the inbox unless it is of another generation or of a rank that ended already."""
        if not isinstance(message, AgentReady) and message.generation != self._generation:
            return
        if isinstance(message, RankExited) and self._running.pop(message.rank, None) is None:
            return
        if is_failure(message) and self._first_failure is None and self._options.settle_s is not None:
            self._first_failure = message
            self._stop_at_s = time.monotonic() + self._options.settle_s
        self._inbox.append(message)

    def _lose(self, node: str) -> None:
        """Report the ranks of an agent whose connection ended: the fork server kills them when it goes."""
        text = self._open_crew().lost[node]
        ranks = sorted(rank for rank, where in self._running.items() if where == node)
        if not ranks:
            self._take(Note(node=node, generation=self._generation, level="warning", text=text))
            return
        self._take(Failed(node=node, generation=self._generation, blame=INFRASTRUCTURE, text=text))
        for rank in ranks:
            self._take(RankExited(node=node, generation=self._generation, rank=rank, code=_KILLED))

    def _keep_deadlines(self) -> None:
        """Stop what outlived the first failure; kill agents that don't carry out a stop."""
        now = time.monotonic()
        if self._first_failure is not None and self._stop_at_s is not None and now >= self._stop_at_s:
            self.stop(str(failure_error(self._first_failure)))
        if self._kill_at_s is not None and now >= self._kill_at_s:
            for node in set(self._running.values()):
                self.kill_node(node)


def ranks_by_node(launch: Launch, nodes: dict[str, Node]) -> dict[str, tuple[int, ...]]:
    """Group the ranks of a bound plan by node; raises BadInputError when the nodes can't hold its placement."""
    placement = launch.plan.placement
    count = launch.plan.world_size
    if len({place.rank for place in placement}) != count or len(placement) != count:
        raise BadInputError(f"the plan has {count} ranks but places {len(placement)}; bind it to nodes first")
    ranks: dict[str, tuple[int, ...]] = {}
    for place in placement:
        node = nodes.get(place.node)
        if node is None:
            names = ", ".join(nodes) or "none"
            raise BadInputError(f"rank {place.rank} is placed on node {place.node!r}; the nodes are {names}")
        if not 0 <= place.chip < node.chips:
            where = f"chip {place.chip} of {place.node}, which has {node.chips}"
            raise BadInputError(f"rank {place.rank} is placed on {where}")
        ranks[place.node] = (*ranks.get(place.node, ()), place.rank)
    return ranks


def make_directory(path: Path) -> None:
    """Make a folder and its parents; raises InfrastructureError naming it when that can't be done."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureError(f"can't make the folder {path}: {error.strerror}") from error


def _names(ranks: Collection[int], most: int = 8) -> str:
    shown = ", ".join(str(rank) for rank in sorted(ranks)[:most])
    return shown + (", ..." if len(ranks) > most else "")
