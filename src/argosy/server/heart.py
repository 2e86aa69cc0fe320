"""Store, loop and planner put together: what decides, remembers and works out, without anybody to talk to.

Must not know agents or HTTP.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from argosy.contracts.command import Launch, RequestOptions, Stop
from argosy.server.annals import Annals
from argosy.server.ground import Ground
from argosy.server.loop import Committed, Heard, Loop
from argosy.server.offers import Offers
from argosy.server.orders import Orders
from argosy.server.planning import Planning, Skills
from argosy.server.store import Store

STORE_NAME = "argosy.sqlite"
WORKERS = 2


class Heart:
    """Drives the core from its store. folder: where the service's files are. ground: the fleet file's.

    now: gives the fleet as it is; touch: has nodes compared; heard: is told of each record. They are set by whoever
    talks with agents and people, before `start`.
    """

    def __init__(self, folder: Path, ground: Ground, skills: Skills) -> None:
        self.folder, self.ground = folder, ground
        self.store = Store(folder / STORE_NAME)
        self.planning = Planning(skills)
        self.now: Callable[[], Ground] = lambda: ground
        self.touch: Callable[[Iterable[str]], None] = lambda _nodes: None
        self.heard: Heard = lambda _committed: None
        self.loop = Loop(self.store, annals=Annals(), heard=self._heard)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="argosy-work")
        self.offers = Offers(self.store, self.loop, self.planning, lambda: self.now(), self._workers)
        self.orders = Orders(self.store, self.loop, lambda: self.now(), self._workers, lambda nodes: self.touch(nodes))

    def start(self) -> None:
        """Take the next term and go on where the last one ended. Raises InfrastructureError."""
        self.loop.start()

    def close(self) -> None:
        """Handle what waits, and end."""
        self.loop.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self.planning.close()

    def _heard(self, committed: Committed) -> None:
        """Carry out the commands of a committed record; in the loop's thread, so nothing here may take long."""
        for command in committed.record.commands:
            match command:
                case Launch():
                    self.touch(self.orders.launch(command))
                case Stop(nodes=nodes):
                    self.touch(nodes)
                case RequestOptions(job=job):
                    self.offers.ask(job)
        self.orders.prune(committed)
        self.heard(committed)
