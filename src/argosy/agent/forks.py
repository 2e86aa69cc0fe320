"""The fork server as a crew sees it: reached once it listens, a store where this node opens one, ranks and their ends.

Knows nothing of jobs, nor what ranks report.
"""

import select
import signal
from dataclasses import dataclass
from pathlib import Path

from argosy.agent.ranks import Rank, RankServer
from argosy.agent.store import HostedStore
from argosy.agent.warm import await_socket
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.launching import RankEnded, ServerFailed, ServerReply
from argosy.contracts.messages import Launch

CONNECT_S = 120.0
"""How long a fork server may load, on a machine that is busy."""
GONE = "the fork server's process for this node ended, and its ranks with it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A rank is gone. text: why, where the fork server knows. last: its reports that were not read yet."""

    rank: int
    code: int
    text: str = ""
    last: tuple[bytes, ...] = ()


class Forks:
    """A node's ranks in the hands of the fork server of a folder."""

    def __init__(self, folder: Path) -> None:
        self._socket = await_socket(folder, CONNECT_S)
        self._server = RankServer(self._socket, CONNECT_S)
        self._store: HostedStore | None = None
        self._ranks: dict[int, Rank] = {}

    def open_store(self, address: str) -> int:
        """Open a TCPStore at this address; gives its port. It lives until `close`."""
        self._store = HostedStore(self._socket, address, 0, CONNECT_S)
        return self._store.port

    def load(self, launch: Launch) -> None:
        """Give it what the ranks to come start from."""
        self._server.load(launch)

    def fork(self, number: int, log: Path, threads: int) -> None:
        """Have one rank forked, whose output goes to `log`."""
        self._ranks[number] = self._server.fork(number, log, threads=threads, append=True)

    def descriptors(self) -> list[int]:
        """Give what to wait on for news."""
        return [self._server.fileno(), *(rank.pipe for rank in self._ranks.values() if not rank.silent)]

    def reports(self) -> dict[int, list[bytes]]:
        """Read what ranks have reported, whole lines by rank."""
        return {number: rank.read() for number, rank in self._ranks.items() if not rank.silent}

    def ended(self) -> list[Ended]:
        """Give the ranks that ended since."""
        found: list[Ended] = []
        while self._ranks and select.select([self._server], [], [], 0)[0]:
            replies = self._server.replies()
            if replies is None:
                return found + [self._end(number, -signal.SIGKILL, GONE) for number in list(self._ranks)]
            for reply in replies:
                found += self._heard(reply)
        return found

    def signal(self, number: int) -> None:
        """Send a signal to every rank and what it started."""
        if self._ranks:
            self._server.signal(number)

    def close(self) -> None:
        """Hang up: what is left is killed."""
        self._server.close()
        if self._store is not None:
            self._store.close()

    def _heard(self, reply: ServerReply) -> list[Ended]:
        match reply:
            case RankEnded(rank=number, code=code):
                return [self._end(number, code)]
            case ServerFailed(rank=number, text=text) if number >= 0:
                return [self._end(number, InfrastructureError.exit_code, text)]
            case ServerFailed(text=text):
                raise InfrastructureError(text)
        return []

    def _end(self, number: int, code: int, text: str = "") -> Ended:
        rank = self._ranks.pop(number, None)
        return Ended(rank=number, code=code, text=text, last=tuple(rank.drain()) if rank else ())
