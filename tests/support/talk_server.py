"""A server that speaks `contracts.talk` over real HTTP and does what a test tells it."""

import contextlib
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from argosy.contracts.job import RunSpec
from argosy.contracts.talk import (
    BUNDLE_PATH,
    JOIN_PATH,
    Answer,
    Gang,
    Held,
    JoinAnswer,
    JoinAsk,
    StartRun,
    Talk,
    read_word,
    write_word,
)

PATIENCE_S, LOOK_S = 120.0, 0.01


class TalkServer:
    """What agents told, and what they are to be told.

    orders: by node, repeated in every answer until they are replaced. An agent's key is its node's name and a number.
    unknown_keys: are refused.
    """

    def __init__(self, port: int = 0, *, lease_s: float = 30.0) -> None:
        self.orders, self.talks, self.joins = {}, [], []
        self.reports: dict[tuple[str, str, int], object] = {}
        self.bundles: dict[str, bytes] = {}
        self.lease_s, self.acknowledges, self.status = lease_s, True, 200
        self.service, self.term = "s1", 1
        self.changed = threading.Condition()
        self.connections, self.unknown_keys = [], set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                outer.connections.append(self.request)

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                if self.path != JOIN_PATH and key in outer.unknown_keys:
                    self.reply(401, b"no such key")
                else:
                    self.reply(outer.status, outer.answer(self.path, data, key))

            def do_GET(self) -> None:
                data = outer.bundles.get(self.path.removeprefix(BUNDLE_PATH))
                self.reply(404 if data is None else 200, data or b"no such bundle")

            def reply(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    super().handle()

            def log_message(self, *arguments: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Stop as a killed process does: nobody listens, and connections break."""
        self._http.shutdown()
        self._http.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def answer(self, path: str, data: bytes, key: str) -> bytes:
        """Answer one request."""
        if path == JOIN_PATH:
            self.joins.append(read_word(data, JoinAsk))
            node = self.joins[-1].node or "n1"
            key = f"{node}/{len(self.joins)}"
            return write_word(JoinAnswer(node=node, key=key, service=self.service))
        talk, node = read_word(data, Talk), key.partition("/")[0]
        with self.changed:
            self.talks.append((talk, node))
            self.reports |= {(node, talk.session, report.number): report for report in talk.reports}
            self.changed.notify_all()
            if talk.wait_s:
                self.changed.wait_for(lambda: self.orders.get(node), talk.wait_s)
            numbers = [number for at, session, number in self.reports if (at, session) == (node, talk.session)]
            number = max(numbers, default=0) if self.acknowledges else 0
            orders = tuple(self.orders.get(node, ()))
            return write_word(Answer(term=self.term, lease_s=self.lease_s, orders=orders, acknowledged=number))

    def order(self, *orders: object, node: str = "n1") -> None:
        """Want this of a node from now on."""
        with self.changed:
            self.orders[node] = list(orders)
            self.changed.notify_all()

    def talked(self, node: str = "n1") -> list[Talk]:
        """Give what a node told, oldest first."""
        return [talk for talk, at in self.talks if at == node]

    def held(self, attempt: str, node: str = "n1") -> Held | None:
        """Give what a node last told of an attempt."""
        newest = max(self.talked(node), key=lambda talk: (talk.sent_us, talk.number), default=None)
        return next((one for one in newest.held if one.attempt == attempt), None) if newest else None

    def await_held(self, attempt: str, test: Callable[[Held], bool], node: str = "n1") -> Held:
        """Wait until what is told of an attempt passes a test."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: (one := self.held(attempt, node)) is not None and test(one), PATIENCE_S
            )
        held = self.held(attempt, node)
        if not done or held is None:
            raise AssertionError(f"{attempt} never came to that; it is {held}")
        return held

    def await_report(self, test: Callable[[object], bool]) -> object:
        """Wait for a report."""
        with self.changed:
            if not self.changed.wait_for(lambda: any(map(test, self.reports.values())), PATIENCE_S):
                raise AssertionError(f"no such report among {list(self.reports.values())}")
        return next(report for report in self.reports.values() if test(report))


def start_run(
    command: str, *, attempt: str = "job-1.1", generation: int = 0, term: int = 1, **fields: object
) -> StartRun:
    """Order one command on one node."""
    spec = RunSpec(command=(command,), **fields)
    ranks = spec.processes_per_node or 1
    gang = Gang(job=attempt.partition(".")[0], nodes=1, node_rank=0, first_rank=0, ranks=ranks, world_size=ranks)
    return StartRun(
        id=f"{attempt}:{generation}", term=term, attempt=attempt, generation=generation, gang=gang, spec=spec, chips=2
    )


def until(test: Callable[[], object], what: str = "that", patience_s: float = PATIENCE_S) -> object:
    """Wait until something is true that another process does, which tells nobody: look again and again."""
    pause = threading.Event()
    for _ in range(int(patience_s / LOOK_S)):
        if found := test():
            return found
        pause.wait(LOOK_S)
    raise AssertionError(f"{what} did not come within {patience_s:g} s")
